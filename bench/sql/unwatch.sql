-- As if nobody had ever followed: changes are noted for a quarter of an hour after the last reader.
DELETE FROM tickwise.feed_watch
