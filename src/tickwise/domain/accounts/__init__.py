"""The system users that jobs may name."""
