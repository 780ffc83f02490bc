"""Runs python and shell tasks as processes of their own, and ends all processes that they start."""
