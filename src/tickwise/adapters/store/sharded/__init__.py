"""One store over several: each namespace lives in one of them."""
