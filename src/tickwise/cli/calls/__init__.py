"""The options that say which request an http task sends."""
