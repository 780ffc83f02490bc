"""Federations: programs that show a token of their own issuer, a pipeline or a cluster, and store no key here."""
