"""People and what belongs to them: users with their roles, namespaces, sessions."""
