"""Senders to receivers outside of the installation: of notices and of traces."""
