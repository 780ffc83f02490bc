"""Keys at the start of a process: the first ones, that of tokens, and those that came back with a backup."""
