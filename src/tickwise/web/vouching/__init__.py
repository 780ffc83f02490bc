"""The proxy that vouches for a visitor, before the pages are asked."""
