"""Several databases of one installation: the map of namespaces, and the move of one from a database to another."""
