"""REST in: bytes of a request become calls of control, and what it answers becomes JSON. One error shape for all."""
