"""What a word on the command line means: names of jobs, the ends of ids, and the nearest names to a typo."""
