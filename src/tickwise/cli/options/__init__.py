"""Options of commands that belong together, and the fields that they say."""
