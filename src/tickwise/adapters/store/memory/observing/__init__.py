"""Status pages, in memory."""
