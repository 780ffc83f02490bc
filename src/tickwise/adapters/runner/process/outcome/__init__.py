"""The outcome of a task of which nothing lives: its ending, and the resources that it used."""
