"""The store as executors and schedulers use it."""
