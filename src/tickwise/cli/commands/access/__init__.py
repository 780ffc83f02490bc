"""Commands about access: the own sign-in, keys, people and namespaces."""
