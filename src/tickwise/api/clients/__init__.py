"""Clients before their requests are read: the address that they have, and the pace that they are held to."""
