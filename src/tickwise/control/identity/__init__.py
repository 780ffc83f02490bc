"""Identity tokens: what everybody may know of them, and the rotation of their keys."""
