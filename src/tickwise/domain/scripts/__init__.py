"""The texts of scripts: their coding, and the files that travel with them."""
