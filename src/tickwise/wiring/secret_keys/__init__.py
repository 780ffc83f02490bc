"""The keys that encrypt secrets: where they come from, and the proof that they do."""
