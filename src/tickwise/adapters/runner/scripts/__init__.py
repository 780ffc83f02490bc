"""The syntax check of scripts, and the header that asks for an environment."""
