"""An executor's output while the object store is away: kept on disk up to a bound, delivered in order, compacted."""
