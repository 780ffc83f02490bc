"""Notices: rules that say which events of jobs people are told of, and how often.

    event ──rule──► alert (one for each rule and subject: open, acknowledged, snoozed, closed)
                      └──► notice (one message for a channel; what follows joins it while it waits) ──► channel

Invariant: an event counts once. Each alert that a rule opens reaches each of its channels, or is on record as a notice
that could not be delivered.
"""
