"""Containers: the policy of an executor, and what `doctor` says of its engine."""
