"""Status pages, on PostgreSQL."""
