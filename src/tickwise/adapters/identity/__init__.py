"""Identity tokens of runs, with PyJWT and cryptography."""
