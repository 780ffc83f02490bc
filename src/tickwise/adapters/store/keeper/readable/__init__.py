"""Readable tables: rows for people and their programs, written behind the commits of a keeper's log.

    entries of the log ──► window: merged by key ──► shadow: the key of each row ──► pending: one write a row ──► tables
    tables      names, keys and columns of the tables
    columns     what of an image stands in which column
    window      effects that are not read yet, merged by key; a new run waits in it for its end
    shadow      what must be known of live jobs and runs to name their rows
    pending     rows that are not written yet, by partition
    projector   follows the log and writes; keeps its place; makes lost tables anew

Invariant: a row holds what the log says as of the position that is its timestamp. So a write that comes late, or twice,
changes nothing.
"""
