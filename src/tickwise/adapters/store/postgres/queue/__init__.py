"""The queue of runs, which several duties share: lanes, new runs, claims in order, limits, releases and wake-ups."""
