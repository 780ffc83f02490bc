"""The `tickwise up` of this machine: the service that starts it, and its restart after an upgrade."""
