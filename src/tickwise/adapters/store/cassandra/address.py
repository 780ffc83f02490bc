"""The address of a Cassandra cluster, as an operator writes it.

    cassandra://[user:password@]host[,host]:port/keyspace[?tls=true&ca=…&cert=…&key=…&datacenter=…]

Invariant: each fault is reported as `Misconfigured`, with the allowed values. No password is ever shown.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from tickwise.domain.errors import Misconfigured

PORT_USUAL: Final = 9042
HOST: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\],]+)(?::(?P<port>\d{1,5}))?")
KEYSPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
"""Cassandra's limit is 48 characters; capitals would have to be quoted everywhere."""
DATACENTER: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
SCHEME: Final = "cassandra"


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraAddress:
    """A cluster and the keyspace in it. Each field that `OPTIONS` names is one option."""

    hosts: tuple[tuple[str, int], ...]
    """The nodes to begin with, as host and port; the client learns of the others."""
    keyspace: str
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: Path | None = None
    """The authorities that sign the certificates of nodes; those of the system without it."""
    cert: Path | None = None
    key: Path | None = None
    datacenter: str = ""
    """The data centre whose nodes are asked; that of the first node that answers without it."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS with the name of the node checked; None without TLS. Raises `Misconfigured`."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as wrong:
            raise Misconfigured(f"database_url: its certificates cannot be used: {wrong}") from wrong
        return context


def is_cassandra(url: str) -> bool:
    """Tell the address of a Cassandra cluster from that of another store."""
    return url.startswith(f"{SCHEME}:")


def read_address(url: str) -> CassandraAddress:
    """Parse the URL. Raises `Misconfigured`."""
    try:
        split = urlsplit(url)
    except ValueError:
        _refuse("it cannot be read; it is written cassandra://host[,host]:port/keyspace")
    if split.scheme != SCHEME:
        _refuse(f"it begins with {split.scheme[:20]!r}, and must begin with cassandra://")
    if "@" in f"{split.path}{split.query}{split.fragment}":
        # Most likely a password that was cut in two, so nothing of it is said.
        _refuse("a '@' stands behind the first '/', '?' or '#'. In a user and a password write %2F, %3F, %23 and %40")
    login, _, hosts = split.netloc.rpartition("@")
    user, _, password = login.partition(":")
    nodes = _nodes(hosts)  # before the options, which may be the rest of a password
    keyspace = split.path.removeprefix("/")
    if split.fragment or not KEYSPACE.fullmatch(keyspace):
        _refuse(
            "the name of a keyspace must stand after the hosts, as in cassandra://host:9042/tickwise: a small letter, "
            "then at most 47 small letters, digits or '_'"
        )
    if keyspace == "system" or keyspace.startswith("system_"):
        _refuse(f"the keyspace {keyspace} is one of Cassandra's own; name another, such as tickwise")
    address = CassandraAddress(
        hosts=nodes, keyspace=keyspace, user=unquote(user), password=unquote(password), **_options(split.query)
    )
    _check(address)
    return address


def _yes_or_no(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        _refuse(f"{name} is {text!r}, and must be true or false")
    return text == "true"


def _file(name: str, text: str) -> Path:
    found = Path(text)
    if not found.is_file():
        _refuse(f"{name} is {text!r}, and must be a file that is there and can be read")
    return found


def _datacenter(name: str, text: str) -> str:
    if not DATACENTER.fullmatch(text):
        _refuse(f"{name} is {text!r}, and must be 1 to 100 letters, digits, '.', '_' or '-'")
    return text


OPTIONS: Final[dict[str, Callable[[str, str], Any]]] = {
    "tls": _yes_or_no,
    "ca": _file,
    "cert": _file,
    "key": _file,
    "datacenter": _datacenter,
}


def _options(query: str) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            shown = repr(name) if re.fullmatch(r"[a-z_]{1,40}", name) else "the part after the '?'"
            _refuse(f"{shown} is no option; there are {', '.join(OPTIONS)}")
        if name in read:
            _refuse(f"{name} is given twice")
        read[name] = OPTIONS[name](name, text)
    return read


def _nodes(hosts: str) -> tuple[tuple[str, int], ...]:
    """A host without a port has that of the next host with one."""
    nodes: list[tuple[str, int]] = []
    port = PORT_USUAL
    for number, text in reversed([*enumerate(hosts.split(","), start=1)]):
        found = HOST.fullmatch(text.strip())
        port = int(found["port"] or port) if found else 0
        if found is None or not 0 < port < 65_536:
            _refuse(f"host {number} cannot be read; write host:port, several with commas between them")
        nodes.append((found["host"].strip("[]"), port))
    return tuple(reversed(nodes))


def _check(address: CassandraAddress) -> None:
    """Check the options that must go together."""
    if bool(address.user) != bool(address.password):
        _refuse("a user and a password go together; write cassandra://user:password@host:port/keyspace")
    given = [name for name in ("ca", "cert", "key") if getattr(address, name) is not None]
    if given and not address.tls:
        _refuse(f"{given[0]} is given without tls=true")
    if (address.cert is None) != (address.key is None):
        _refuse("cert and key go together: the certificate of this client, and its private key")


def _refuse(problem: str) -> NoReturn:
    raise Misconfigured(f"database_url: {problem}")
