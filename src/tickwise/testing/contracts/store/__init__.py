"""The suites of the store: `dispatch` for what executors and schedulers ask, `jobs` for what people ask."""
