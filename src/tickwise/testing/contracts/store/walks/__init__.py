"""Walks: calls drawn by a seed, after each of which the promises of the store must hold."""
