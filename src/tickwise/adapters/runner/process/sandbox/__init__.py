"""Sandboxes: namespaces around a task, made by bubblewrap, with a seccomp filter and Landlock."""
