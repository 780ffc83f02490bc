"""Commands about what many runs come to."""
