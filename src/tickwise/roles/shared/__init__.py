"""What several roles and control use: the frame of a role, definitions, messages, group commit."""
