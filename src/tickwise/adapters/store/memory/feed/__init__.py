"""The feed of a memory store: the changes that it keeps (`log`), and the part that hands them out (`part`)."""
