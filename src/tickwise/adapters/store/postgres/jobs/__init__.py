"""Jobs and their changes: submits, edits, commands, tasks, rules, keys and sequences."""
