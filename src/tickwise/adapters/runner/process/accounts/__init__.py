"""The system users that jobs name (`run_as`)."""
