"""Starts ordinary tasks from a small process, whose children they are, and ends the short ones there."""
