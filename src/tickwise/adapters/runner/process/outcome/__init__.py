"""The resources that a task of which nothing lives has used."""
