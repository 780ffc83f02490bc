"""The scheduler: turns due timers into runs, and repairs what is stuck. README.md tells its parts."""
