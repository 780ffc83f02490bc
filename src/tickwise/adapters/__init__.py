"""With what the ports are filled: one package per technology. None knows another; only `wiring` names them."""
