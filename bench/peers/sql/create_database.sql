-- A database of its own for one run of one peer.
CREATE DATABASE tickwise_peer
