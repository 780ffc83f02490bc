"""Suites over what a store tells about many runs: analytics, objectives."""
