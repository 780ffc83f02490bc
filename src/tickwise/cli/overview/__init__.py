"""An installation at one look: what runs, what failed, what is late, who is there."""
