"""Live events: one reader of the store's feed for all open streams of a process, and the streams themselves.

    feed ──one reader──► FeedReader ──► matching ──► EventStream (bounded) ──► the API writes it to its client

Parts, the lower ones first: `filters`, `streams`, `reader`, `log_follower`, `service`.
"""
