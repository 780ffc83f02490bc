"""REST in: the bytes of a request become calls of control, and its results become JSON. One error shape for all."""
