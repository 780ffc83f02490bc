"""The published test kit: contract suites that every adapter passes, clocks that a test holds, and makers of values.

Product code never imports this package; it needs pytest, which the product does not.
"""
