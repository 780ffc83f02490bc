"""Environments of scripts, built by uv and kept in a folder that the executors of a machine share."""
