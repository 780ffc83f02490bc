"""The terminal: `tickwise …`. Commands load lazily, so that `tickwise --help` and completion answer at once."""
