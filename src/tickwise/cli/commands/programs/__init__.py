"""Commands about programs of the SDK."""
