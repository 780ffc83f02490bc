"""The recorders: write to the store what the broker carries. README.md tells their parts."""
