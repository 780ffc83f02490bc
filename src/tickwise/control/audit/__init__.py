"""The audit log: entries of what callers do, refusals gathered by the minute, searches, the check of the chains.

Invariant: an entry is made where the write is made, and handed to the store with it; nothing is written afterwards.
"""
