"""What runs: loops over ports, each with start, tick, drain and stop; and `control`, what people ask."""
