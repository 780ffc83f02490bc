"""The log of a shard on Apache Cassandra 5: the truth of a keeper.

    address      cassandra://host[,host]:port/keyspace, and its options
    link         one session of the driver, bridged to asyncio; its errors translated; in `hosts`, whom it asks first
    schema       the keyspace and its tables; what `tickwise db upgrade` does
    ownership    the row of a shard: owner, epoch, lease, the position of the last entry
    log          `CassandraLog`, the port `EffectLog`: bodies, one small conditional update for each entry, drops
    checkpoints  the parts of checkpoints, and what is left of those that were never whole
    time         the clock of the cluster: the median of its nodes, which never goes back
    looks        the settings of the nodes that a promise rests on, for `doctor`

Everything that must not happen twice is one conditional update of one row (`shard`). All other rows are written once,
under keys that no later owner writes, so neither a late write nor the clock of a node can change what is there.
"""
