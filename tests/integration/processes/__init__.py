"""Many processes on one database, killed in the middle."""
