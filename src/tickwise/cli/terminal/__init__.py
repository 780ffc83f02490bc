"""Texts on a terminal: the width of characters, columns that fit, a screen of its own, bars of progress."""
