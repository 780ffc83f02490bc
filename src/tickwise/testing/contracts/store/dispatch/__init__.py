"""What executors and schedulers ask of a store."""
