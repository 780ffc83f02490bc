"""Sign-in by a provider, in the pages."""
