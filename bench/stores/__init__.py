"""Benches of stores beside the one that `make bench` measures."""
