"""Runs functions in warm worker processes."""
