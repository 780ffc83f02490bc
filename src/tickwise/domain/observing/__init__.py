"""Rules about many runs: how they are counted and measured."""
