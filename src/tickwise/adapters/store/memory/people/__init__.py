"""People, their keys, and namespaces with their end, over a `State`."""
