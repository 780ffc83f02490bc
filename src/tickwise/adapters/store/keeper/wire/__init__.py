"""The way from a role to the keeper of a shard: the port `Store` over TCP.

    role ── RemoteStore ── KeeperLink ══ TLS ══ KeeperServer ── KeeperStore ── log
              │                                      │
              └── finds the owner, and again after a move     └── one shard or several of this process

    forms    calls, answers and errors as bytes, by the types of the port
    frames   messages on a connection: their length, and MessagePack-RPC in them
    pinning  the certificate of a keeper's process, which its endpoint names
    server   takes connections, lets in who has the key of the keyspace, carries calls out
    link     one connection of a client
    remote   `RemoteStore`: calls until the owner answers

Who can read the keyspace has its key, and can do no more by it than in the database itself.
"""
