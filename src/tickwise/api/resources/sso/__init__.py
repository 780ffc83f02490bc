"""Sign-in by a provider, as the API has it: the provider for clients, its logouts, and people tied to identities."""
