"""A job as a form: what its fields are, what was typed into them, and what a change would do."""
