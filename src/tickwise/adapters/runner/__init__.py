"""Runners: `function` in warm workers, `python` and `shell` as processes, `http`; others come as plugins."""
