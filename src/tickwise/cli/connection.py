"""Finds the server and the key: as told, else the `tickwise up` of this machine, else the last sign-in.

    server  --url  >  TICKWISE_URL  >  <data dir>/client.json, which a local `up` writes  >  the last `tickwise login`
    trust   --ca-file  >  TICKWISE_CA_FILE  >  the certificate that <data dir>/client.json names  >  the machine's
    key     --api-key  >  TICKWISE_API_KEY  >  TICKWISE_FEDERATED_TOKEN_FILE, exchanged for a token  >  the sign-in at
    that server  >  <data dir>/client.json  >  the token of a workflow of GitHub, exchanged

A local server comes before a sign-in elsewhere, so that no command meant for this machine reaches another one.
The file is readable only by who started it, so on a laptop there is no key to paste, and on a shared machine
nobody gets one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tickwise.cli.failures import CommandFailure, Exit
from tickwise_sdk.data_folder import data_folder

CLIENT_FILE = "client.json"
OF_CLIENTS: Final = frozenset(
    f"TICKWISE_{name}"
    for name in (
        "DATA_DIR", "URL", "API_KEY", "NAMESPACE", "CA_FILE", "DEBUG", "FEDERATED_TOKEN_FILE", "FEDERATED_AUDIENCE",
    )
)  # fmt: skip
"""The variables that a command heeds. All others are settings, or slips that are said."""
TOKEN_FILE = "TICKWISE_FEDERATED_TOKEN_FILE"
GITHUB_TOKENS = ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
"""As `tickwise_sdk.federated` reads them, which takes longer to import."""
LOCK_FILE = "lock"
"""An `up` writes its process id there, and empties the file at its end."""


@dataclass(frozen=True)
class Local:
    """The record that a running `up` wrote about itself."""

    url: str
    key: str | None
    pid: int
    written_at: float
    """The time of writing, by the file system's clock."""
    database_url: str | None
    settings: tuple[tuple[str, str, str], ...] | None = None
    """Name, value and origin of each, secrets masked; None: a release that wrote none."""
    ca_file: str | None = None
    server_name: str | None = None
    """The certificate that the server has if it speaks TLS, and a name in it."""
    version: str | None = None
    build: str | None = None
    """The version and the files of the program that it runs; None: a release that told neither."""


class ServerTarget(NamedTuple):
    """The place where to send requests."""

    url: str
    key: str | None
    namespace: str | None = None
    """None: that of the key."""
    is_signed_in: bool = False
    """The sign-in at this server is used; its token takes the place of the key."""
    ca_file: str | None = None
    """The certificates that alone are trusted; None: those of the machine."""
    server_name: str | None = None
    """The name that the server's certificate must have; None: that of the address."""
    is_federated: bool = False
    """The token of a pipeline or a cluster is exchanged for one of this server, in place of the key."""
    is_local: bool = False
    """It is the `up` of this machine, found by its record."""


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The data folder that a local `up` with the same environment uses. All settings are read only if there may be
    others than those that a command heeds: to load their declarations takes as long as a request."""
    ours = [name for name, value in environ.items() if value and name.startswith("TICKWISE_")]
    if OF_CLIENTS.issuperset(ours):
        return data_folder(environ).absolute()
    from tickwise import config

    return config.load(environ).data_dir


def read_local(data_dir: Path) -> Local | None:
    """Read the record of the `up` of this data folder; None if there is none, or none that is whole and readable."""
    path = data_dir / CLIENT_FILE
    try:
        written_at = path.stat().st_mtime
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except PermissionError:
        raise CommandFailure(
            f"{path} may not be read by you: another user started this Tickwise.",
            Exit.UNREACHABLE,
            advice="Give its address and a key of your own: --url and --api-key, or TICKWISE_URL and TICKWISE_API_KEY.",
        ) from None
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("url"), str):
        return None
    pid, database_url = value.get("pid"), value.get("database_url")
    return Local(
        value["url"], value.get("key"), pid if isinstance(pid, int) else 0, written_at,
        database_url if isinstance(database_url, str) else None, _settings(value.get("settings")),
        value.get("ca_file"), value.get("server_name"), value.get("version"), value.get("build"),
    )  # fmt: skip


def _settings(told: Any) -> tuple[tuple[str, str, str], ...] | None:
    """The settings of a record; None if these are not what an `up` writes."""
    try:
        return tuple((str(name), str(value), str(origin)) for name, value, origin in told)
    except (TypeError, ValueError):
        return None


def _holder(data_dir: Path) -> int | None:
    """The process that has the data folder: an `up` before it is ready, or while its tasks end."""
    try:
        pid = json.loads((data_dir / LOCK_FILE).read_text(encoding="utf-8"))["pid"]
        os.kill(pid, 0)
    except PermissionError:
        return int(pid)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return int(pid)


class KnownSignIn(Protocol):
    """The part of a sign-in that is needed here."""

    @property
    def url(self) -> str:
        """Its server."""
        ...


class KnownSignIns(Protocol):
    """The sign-ins of this user."""

    def get(self, url: str) -> KnownSignIn | None:
        """The sign-in at a server."""
        ...

    def last(self) -> KnownSignIn | None:
        """The newest one."""
        ...


def find(
    *,
    url: str | None,
    key: str | None,
    data_dir: str | None,
    environ: Mapping[str, str],
    namespace: str | None = None,
    sign_ins: KnownSignIns | None = None,
    ca_file: str | None = None,
) -> ServerTarget:
    """The server to talk to. Raises `CommandFailure` with how to start or name one if there is none."""
    url = url or environ.get("TICKWISE_URL") or None
    key = key or environ.get("TICKWISE_API_KEY") or None
    namespace = namespace or environ.get("TICKWISE_NAMESPACE") or None
    ca_file = ca_file or environ.get("TICKWISE_CA_FILE") or None
    target = _server(url, key, data_dir, environ, sign_ins)._replace(namespace=namespace)
    if ca_file is not None:
        target = target._replace(ca_file=ca_file, server_name=None)
    if key is None and environ.get(TOKEN_FILE):
        return target._replace(key=None, is_federated=True)
    if key is None and sign_ins is not None and sign_ins.get(target.url) is not None:
        return target._replace(key=None, is_signed_in=True)
    return target._replace(is_federated=target.key is None and all(environ.get(name) for name in GITHUB_TOKENS))


def _server(
    url: str | None, key: str | None, data_dir: str | None, environ: Mapping[str, str], sign_ins: KnownSignIns | None
) -> ServerTarget:
    """The server, and the key for it as far as one was given or is in the file of a local server."""
    if url and key:
        return ServerTarget(url, key)
    folder = Path(data_dir).expanduser().absolute() if data_dir else default_data_dir(environ)
    local = read_local(folder)
    if local is None:
        last = None if data_dir or sign_ins is None else sign_ins.last()
        named = url or (None if last is None else last.url)
        if named:
            return ServerTarget(named, key)
        pid = _holder(folder)
        if pid is not None:
            raise CommandFailure(
                f"the Tickwise of {folder} (process {pid}) is starting or stopping.", Exit.UNREACHABLE,
                advice="Repeat the command in a moment. `tickwise down` waits until it has stopped.",
            )  # fmt: skip
        raise CommandFailure(
            "no running Tickwise was found on this machine.",
            Exit.UNREACHABLE,
            advice=f"Start one with `tickwise up` (looked in {folder}), name one with --url and --api-key, or "
            "TICKWISE_URL and TICKWISE_API_KEY, or sign in: tickwise login --url URL",
        )
    if url and url.rstrip("/") != local.url.rstrip("/"):
        # The local key is for the local server only; another one must not even see it.
        return ServerTarget(url, key)
    return ServerTarget(
        url or local.url, key or local.key, ca_file=local.ca_file, server_name=local.server_name, is_local=True
    )
