"""TLS of the ports: their certificate, and a warning where there is none."""
