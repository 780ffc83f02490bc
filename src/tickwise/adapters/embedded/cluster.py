"""The data directory: its holder, the place and the version of its cluster; and the making of a new one.

Everything here is done before the server starts, by one process at a time: the holder of `DirectoryLock`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from tickwise.adapters.embedded.binaries import Binaries, find_binaries, usable_by
from tickwise.adapters.embedded.programs import Account, can_enter, failure, run, server_account
from tickwise.domain.errors import Misconfigured

LAYOUT_VERSION = 1

# A new cluster takes 40 MB with its first log segment, the copied programs 41 MB, and the log keeps up to 256 MB for
# reuse under load. A server that runs out of disk stops at once; better not to start it.
MINIMUM_FREE_BYTES = 200_000_000

# Only for clusters whose data directory lies where the server's user cannot go, such as below /root.
OUTSIDE_CLUSTERS = Path("/var/lib/tickwise/clusters")

# Others may pass through to names that they know, and list nothing.
PASSABLE = 0o711

_SQL = Path(__file__).parent / "sql"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Cluster:
    """A complete cluster and all that is needed to start its server."""

    root: Path
    account: Account | None
    binaries: Binaries
    password: str

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def sockets(self) -> Path:
        return self.root / "run"

    @property
    def log_file(self) -> Path:
        return self.root / "log" / "postgres.log"

    def program(self, name: str) -> Path:
        return self.binaries.bin_dir / name


@dataclass(frozen=True)
class Wanted:
    """The parameters of `prepare`. `random_bytes` returns that many unpredictable bytes."""

    data_dir: Path
    minimum_free_bytes: int
    random_bytes: Callable[[int], bytes]
    binaries: Binaries | None


class DirectoryLock:
    """Exclusive use of a directory: held by one process, let go by the kernel however that process ends."""

    def __init__(self, directory: Path, *, api_port: int | None) -> None:
        self._path = directory / "lock"
        self._directory = directory
        self._api_port = api_port
        self._file: int | None = None

    def take(self) -> None:
        """Raises Misconfigured, with the holder's process and port, if another one has it."""
        if self._file is not None:
            return
        # Closed on exec, as everything that Python opens: no child keeps the lock after us.
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise Misconfigured(self._in_use()) from None
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"pid": os.getpid(), "port": self._api_port}).encode())
        self._file = file

    def release(self) -> None:
        """Does nothing if it is not held. The file stays: removing it would let two holders in."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _in_use(self) -> str:
        try:
            holder = json.loads(self._path.read_text())
            pid, port = int(holder["pid"]), holder["port"]
        except (OSError, ValueError, KeyError, TypeError):
            return f"{self._directory} is already in use by another process. Stop that one, or use another --data-dir."
        where = f", port {port}" if port else ""
        return (
            f"{self._directory} is already in use by process {pid} (tickwise up{where}). `tickwise down` stops it and "
            "waits until it has ended; or use another --data-dir."
        )


def prepare(wanted: Wanted) -> tuple[Cluster, bool]:
    """Finds or makes the cluster; the flag says that its password was lost and must be set anew.

    Blocks for as long as a cluster takes to make, half a second or more. Raises Misconfigured.
    """
    own = wanted.data_dir / "postgres"
    _make_passable(own)
    root, account = locate(wanted.data_dir, wanted.random_bytes)
    _check_layout(root)
    check_space(root, wanted.minimum_free_bytes)
    binaries = _choose_binaries(root, account, wanted.binaries)
    _remove_unfinished(root)
    exists = (root / "data").exists()
    password, is_new = _password(root, wanted.random_bytes)
    for name in ("run", "log"):
        (root / name).mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(root / "run", account.uid, account.gid)
    cluster = Cluster(root=root, account=account, binaries=binaries, password=password)
    if not exists:
        _create(cluster, superuser_password=wanted.random_bytes(32).hex())
    _write(root / "binaries.json", json.dumps({"version": binaries.version, "bin_dir": str(binaries.bin_dir)}))
    return cluster, exists and is_new


def make_data_dir(data_dir: Path) -> None:
    """Raises Misconfigured with the reason if it cannot be made or written."""
    try:
        missing = not data_dir.exists()
        data_dir.mkdir(parents=True, exist_ok=True)
        if missing:
            data_dir.chmod(PASSABLE if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise Misconfigured(
            f"The data directory {data_dir} cannot be made: {error.strerror}. Name another: --data-dir."
        ) from None
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise Misconfigured(
            f"The data directory {data_dir} cannot be written by this user (uid {os.geteuid()}). Start as the user "
            "that made it, or name another: --data-dir."
        )


def locate(data_dir: Path, random_bytes: Callable[[int], bytes]) -> tuple[Path, Account | None]:
    """The folder of the cluster and the user that its server runs as.

    That is `data_dir/postgres`, unless we are root and the server's user cannot get there: then a folder outside, named
    by the file LOCATION. The name is drawn, not derived from the path, so that a data directory that is deleted and
    made again is empty, as its owner expects.
    """
    own = data_dir / "postgres"
    pointer = own / "LOCATION"
    if pointer.exists():
        root = Path(pointer.read_text().strip())
        if not root.is_dir():
            raise Misconfigured(
                f"{pointer} says that the cluster is in {root}, and there is none. Restore that folder; or, to begin "
                f"empty, delete {pointer}."
            )
        return root, server_account(root / "data")
    account = server_account(own / "data")
    if account is None or can_enter(own, account) or _let_in(data_dir, own, account):
        return own, account
    if (own / "data").exists():
        raise Misconfigured(
            f"PostgreSQL runs as the user {account.name} when it is started by root, and that user can no longer "
            f"reach {own}. Let it pass through the folders above again (chmod o+x), or move the data directory to "
            "where it can go."
        )
    root = OUTSIDE_CLUSTERS / random_bytes(8).hex()
    _make_passable(root)
    _write(root / "OWNER", str(data_dir))
    _write(pointer, str(root))
    log.warning(
        "embedded_postgres_outside_data_dir",
        data_dir=str(data_dir),
        cluster=str(root),
        reason=f"the server runs as {account.name}, which cannot reach the data directory",
    )
    return root, account


def _let_in(data_dir: Path, own: Path, account: Account) -> bool:
    """Lets the server's group pass through the data directory itself, if root alone may: no parent, and no other user.

    That makes `--data-dir $(mktemp -d)` work as root without opening the folder to anybody else.
    """
    state = data_dir.stat()
    if not can_enter(data_dir.parent, account) or state.st_uid != 0 or state.st_mode & 0o070:
        return False
    os.chown(data_dir, -1, account.gid)
    data_dir.chmod((state.st_mode & 0o7777) | 0o010)
    return can_enter(own, account)


def _make_passable(folder: Path) -> None:
    """Make a folder with its parents; as root, so that the server's user can pass with any umask."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        each.chmod(PASSABLE if os.geteuid() == 0 else 0o700)


def _check_layout(root: Path) -> None:
    marker = root / "VERSION"
    if not marker.exists():
        _write(marker, str(LAYOUT_VERSION))
        return
    text = marker.read_text().strip()
    if not text.isdecimal():
        raise Misconfigured(
            f"{marker} is damaged: it holds {text[:20]!r} and not a version. Restore it from a backup, or start with "
            "another --data-dir."
        )
    if int(text) > LAYOUT_VERSION:
        raise Misconfigured(
            f"The data directory was made by a newer Tickwise: {root} has layout {text}, and this one knows "
            f"{LAYOUT_VERSION} at most. Install that version or a newer one, or start with another --data-dir."
        )


def check_space(root: Path, minimum_free_bytes: int) -> None:
    """Raises Misconfigured if the disk is too full to begin."""
    free = shutil.disk_usage(root).free
    if free < minimum_free_bytes:
        needed_mb, free_mb = minimum_free_bytes // 1_000_000, free // 1_000_000
        raise Misconfigured(
            f"No space is left on the disk of {root}: {free_mb} MB are free, and {needed_mb} MB are needed to start. "
            "Free some space there, or start with another --data-dir."
        )


def _choose_binaries(root: Path, account: Account | None, given: Binaries | None) -> Binaries:
    """The given ones, if they fit an existing cluster; else the best that are found."""
    major = _cluster_major(root / "data")
    if given is None or (major is not None and given.major != major):
        given = find_binaries(major=major, recorded=recorded_programs(root))
    return usable_by(given, account, root / "bin")


def _cluster_major(data: Path) -> int | None:
    marker = data / "PG_VERSION"
    if not data.exists():
        return None
    try:
        return int(marker.read_text())
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"{data} is no complete PostgreSQL cluster: {marker} cannot be read ({error}). Restore it from a backup, "
            "or start with another --data-dir."
        ) from None


def cluster_folder(data_dir: Path) -> Path:
    """The folder of the cluster of a data directory that was used before."""
    pointer = data_dir / "postgres" / "LOCATION"
    return Path(pointer.read_text().strip()) if pointer.exists() else data_dir / "postgres"


def has_cluster(data_dir: Path) -> bool:
    """Check whether a data directory has a cluster."""
    return (cluster_folder(data_dir) / "data" / "PG_VERSION").exists()


def recorded_programs(root: Path) -> Path | None:
    """The folder of the programs that served a cluster last; None: it was never served."""
    try:
        return Path(json.loads((root / "binaries.json").read_text())["bin_dir"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _password(root: Path, random_bytes: Callable[[int], bytes]) -> tuple[str, bool]:
    """The password of the product's role, and whether it was made just now."""
    file = root / "secret" / "password"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    if file.exists():
        password = file.read_text().strip()
        # It goes into SQL text, so nothing but what we write ourselves is believed.
        if len(password) == 64 and all(sign in "0123456789abcdef" for sign in password):
            return password, False
    password = random_bytes(32).hex()
    _write(file, password, mode=0o600)
    return password, True


def _remove_unfinished(root: Path) -> None:
    """Remove the rest of a first start that was killed. Its initdb may write on for a moment; a later start sees to
    that."""
    for remains in root.glob("data.partial-*"):
        if remains.is_dir():
            shutil.rmtree(remains, ignore_errors=True)
        else:
            remains.unlink()


def _create(cluster: Cluster, *, superuser_password: str) -> None:
    """Makes the cluster beside its place and then renames it: it is there whole, or not at all."""
    partial = Path(tempfile.mkdtemp(prefix="data.partial-", dir=cluster.root))
    with tempfile.NamedTemporaryFile("w", dir=cluster.root, prefix="data.partial-") as superuser:
        superuser.write(superuser_password)
        superuser.flush()
        if cluster.account is not None:
            for path in (partial, superuser.name):
                os.chown(path, cluster.account.uid, cluster.account.gid)
        _run(cluster, "PostgreSQL could not make its cluster", _initdb(cluster, partial, superuser.name))
    single_user(cluster, "setup.sql", partial)
    # At each of its rounds, autovacuum visits each database that has statistics. The making of the cluster left
    # statistics of two unused databases, and those visits would be a fifth of an idle server's cost.
    (partial / "pg_stat" / "pgstat.stat").unlink(missing_ok=True)
    # Everything above was written without waiting for the disk, which is quicker at once and at the end.
    sync: list[str | Path] = [cluster.program("initdb"), "--sync-only", "-D", partial]
    _run(cluster, "PostgreSQL could not write its cluster to the disk", sync)
    partial.rename(cluster.data)
    _sync_folder(cluster.root)


def _initdb(cluster: Cluster, folder: Path, password_file: str) -> list[str | Path]:
    """The command that makes the cluster. As root the product connects as another user than the server's, so the socket
    asks for the password too."""
    command: list[str | Path] = [cluster.program("initdb"), "-D", folder, "--username=postgres"]
    command += ["--auth-host=scram-sha-256", "--auth-local=scram-sha-256", f"--pwfile={password_file}"]
    command += ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    if cluster.binaries.major >= 17:
        # Upper and lower case of all of Unicode, ordered by code point: quick, and the same on every machine.
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return command


def single_user(cluster: Cluster, statements: str, data: Path) -> None:
    """Runs a file of `sql/` as the superuser while no server runs. Raises Misconfigured if a statement fails."""
    text = (_SQL / statements).read_text().replace("{password}", cluster.password)
    command: list[str | Path] = [cluster.program("postgres"), "--single", "-j", "-D", data]
    command += [
        "-c",
        "exit_on_error=on",
        "-c",
        "log_checkpoints=off",
        "-c",
        "log_min_error_statement=panic",
        "postgres",
    ]
    _run(cluster, f"PostgreSQL could not run {statements}", command, text)


def _run(cluster: Cluster, what: str, command: list[str | Path], standard_input: str = "") -> None:
    done = run(command, account=cluster.account, standard_input=standard_input)
    if done.returncode:
        raise failure(what, done.stdout, cluster.root)


def _write(file: Path, text: str, *, mode: int = 0o644) -> None:
    """Whole or not at all, and on the disk when this returns."""
    partial = file.with_name(f"{file.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{text}\n")
        stream.flush()
        os.fsync(descriptor)
    partial.rename(file)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
