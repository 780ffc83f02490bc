"""Several memory stores behind one map."""
