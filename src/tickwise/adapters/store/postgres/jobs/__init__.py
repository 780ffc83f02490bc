"""Jobs and what changes them: submits, edits, commands, tasks, rules, keys and sequences."""
