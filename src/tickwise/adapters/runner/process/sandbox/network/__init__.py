"""The network of a sandbox whose job names destinations: one filtering proxy for all runs of an executor."""
