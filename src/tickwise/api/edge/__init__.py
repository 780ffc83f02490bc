"""The edge of the API: TLS, and the headers that protect every answer."""
