"""People, their roles and their sessions."""
