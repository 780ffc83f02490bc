"""The executor: claims runs, runs their tasks, and reports the outcomes. README.md tells its parts."""
