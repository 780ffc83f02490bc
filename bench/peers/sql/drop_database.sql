-- What an earlier run of a peer left.
DROP DATABASE IF EXISTS tickwise_peer WITH (FORCE)
