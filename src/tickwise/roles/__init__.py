"""The processes of Tickwise: loops over ports, each with start, tick, drain and stop."""
