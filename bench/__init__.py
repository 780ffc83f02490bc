"""Load rigs: each case runs the product as it is shipped, beside a limit on the same server, interleaved."""
