"""Parts that several roles and control share: the frame of a role, definitions, messages, group commit."""
