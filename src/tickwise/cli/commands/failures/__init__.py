"""Commands about failures of many runs."""
