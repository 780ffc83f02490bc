"""Runs python and shell tasks as processes of their own, and ends whatever they start."""
