"""Commands for the operators of an installation: its backup, and its way back."""
