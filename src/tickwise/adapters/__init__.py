"""The implementations of the ports: one package per technology. No adapter imports another; only `wiring`
names them."""
