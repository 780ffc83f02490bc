"""The meaning of words on the command line: names of jobs, the ends of ids, and the nearest names to a typo."""
