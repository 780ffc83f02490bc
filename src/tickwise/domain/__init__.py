"""The rules of scheduling: frozen values and pure functions. Standard library only; no I/O, no clock, no randomness."""
