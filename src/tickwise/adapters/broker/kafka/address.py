"""The address of a Kafka cluster with every option, as an operator writes it, and what the client is told from it.

    kafka://[user:password@]host:port[,host:port…][?prefix=tickwise&lanes=10&…]

Invariant: each fault is reported as `Misconfigured`, with the allowed values. No password is ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from tickwise.domain.errors import Misconfigured
from tickwise.ports.broker import MAX_ERROR_HEADERS_BYTES, MAX_MESSAGE_BYTES, PRIORITIES

PORT_USUAL: Final = 9092
PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
OPTION: Final = re.compile(r"[a-z_]{1,40}")
HOST: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\],]+)(?::(?P<port>\d{1,5}))?")
PROTOCOLS: Final = ("consumer", "classic", "share")
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

Protocol = Literal["consumer", "classic", "share"]


def _number(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            _refuse(f"{name} is {text!r}, and must be a whole number from {least} to {most}")
        return int(text)

    return read


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in allowed:
            _refuse(f"{name} is {text!r}, and must be one of {', '.join(allowed)}")
        return text

    return read


def _yes_or_no(name: str, text: str) -> bool:
    return _one_of("true", "false")(name, text) == "true"


def _file(name: str, text: str) -> Path:
    found = Path(text)
    if not found.is_file():
        _refuse(f"{name} is {text!r}, and must be a file that is there and can be read")
    return found


def _prefix(name: str, text: str) -> str:
    if not PREFIX.fullmatch(text) or text in (".", ".."):
        _refuse(f"{name} is {text!r}, and must be 1 to 200 letters, digits, '.', '_' or '-', as topics are named")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAddress:
    """A cluster, and how we use it. Each field that `OPTIONS` names is one option."""

    servers: tuple[str, ...]
    """The addresses to begin with, as host:port; the client learns of the others."""
    user: str = ""
    password: str = field(default="", repr=False)
    prefix: str = "tickwise"
    """Topics are `{prefix}.requests` and so on, groups `{prefix}.…`. One cluster of Tickwise has it for itself."""
    lanes: int = PRIORITIES
    partitions: int = 6
    """Of each topic. No more members of a group than this have work, so it bounds how many executors hints reach."""
    replication: int = 0
    """Copies of each partition; 0 leaves it to the cluster."""
    group_protocol: Protocol = "consumer"
    """`consumer` needs Kafka 4.0; `classic` is for older ones; `share` (4.2, a preview) is for hints only."""
    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    sasl: str = ""
    hints_hours: int = 1
    requests_days: int = 7
    dead_days: int = 30
    session_seconds: int = 0
    """The time that a member that fell silent keeps its partitions; 0 leaves it to the cluster (45 s as shipped)."""
    confirm_seconds: int = 10
    """The longest time that a message may wait to be confirmed. Longer than a broker needs to come back, shorter than a
    caller waits."""

    def client(self) -> dict[str, Any]:
        """The options of every client of this cluster."""
        told: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.servers),
            "client.id": "tickwise",
            "security.protocol": ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT"),
            # As shipped 60 s: so long a call may hang on a broker that stands still.
            "socket.timeout.ms": 10_000,
            "socket.keepalive.enable": True,
            "socket.nagle.disable": True,
            # As shipped the pauses grow to 10 s; a broker that is back should be felt at once.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1_000,
            # As shipped 5 min; a topic that was deleted and made again is noticed by this.
            "topic.metadata.refresh.interval.ms": 5_000,
            "enable.metrics.push": False,
        }
        if self.sasl:
            told |= {"sasl.mechanism": self.sasl, "sasl.username": self.user, "sasl.password": self.password}
        files = {"ssl.ca.location": self.ca, "ssl.certificate.location": self.cert, "ssl.key.location": self.key}
        return told | {name: str(path) for name, path in files.items() if path is not None}

    def retention_ms(self) -> Mapping[str, int]:
        """By the kind of a channel: how long its messages are kept."""
        kept = self.requests_days * DAY_MS
        hints, dead = self.hints_hours * HOUR_MS, self.dead_days * DAY_MS
        return {"requests": kept, "runs": hints, "results": kept, "dead": dead}

    @property
    def message_bytes_most(self) -> int:
        """The largest message: one that could just be sent, put aside with its story."""
        return MAX_MESSAGE_BYTES + MAX_ERROR_HEADERS_BYTES


OPTIONS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "prefix": _prefix,
    "lanes": _number(1, PRIORITIES),
    "partitions": _number(1, 1_000),
    "replication": _number(1, 9),
    "group_protocol": _one_of(*PROTOCOLS),
    "tls": _yes_or_no,
    "ca": _file,
    "cert": _file,
    "key": _file,
    "sasl": _one_of(*MECHANISMS),
    "hints_hours": _number(1, 8_760),
    "requests_days": _number(1, 3_650),
    "dead_days": _number(1, 3_650),
    "session_seconds": _number(1, 1_800),
    "confirm_seconds": _number(1, 300),
}


def read_address(url: str) -> KafkaAddress:
    """Parse the URL. Raises `Misconfigured`."""
    try:
        split = urlsplit(url)
    except ValueError:
        _refuse("it cannot be read; it is written kafka://host:port[,host:port]?prefix=tickwise")
    if split.scheme != "kafka":
        _refuse(f"it begins with {split.scheme[:20]!r}, and must begin with kafka://")
    if "@" in f"{split.path}{split.query}{split.fragment}":
        # Most likely a password that was cut in two, so nothing of it is said.
        _refuse(
            "a '@' stands behind the first '/', '?' or '#'. In a user and a password write %2F for /, %3F for ?, "
            "%23 for # and %40 for @; in an option write %40"
        )
    if split.path not in ("", "/") or split.fragment:
        _refuse("nothing may stand between the hosts and the '?'; the names of topics begin with prefix=…")
    login, _, hosts = split.netloc.rpartition("@")
    user, _, password = login.partition(":")
    servers = _servers(hosts)  # before the options, which may be the rest of a password
    options = _options(split.query)
    address = KafkaAddress(servers=servers, user=unquote(user), password=unquote(password), **options)
    _check(address, split, options)
    return address


def _options(query: str) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in OPTIONS:
            shown = repr(name) if OPTION.fullmatch(name) else "the part after the '?'"
            _refuse(f"{shown} is no option; there are {', '.join(OPTIONS)}")
        if name in read:
            _refuse(f"{name} is given twice")
        read[name] = OPTIONS[name](name, text)
    return read


def _servers(hosts: str) -> tuple[str, ...]:
    servers = []
    for number, text in enumerate(hosts.split(","), start=1):
        found = HOST.fullmatch(text.strip())
        port = int(found["port"] or PORT_USUAL) if found else 0
        if found is None or not 0 < port < 65_536:
            _refuse(f"server {number} cannot be read; write host:port, several with commas between them")
        servers.append(f"{found['host']}:{port}")
    return tuple(servers)


def _check(address: KafkaAddress, split: SplitResult, options: Mapping[str, Any]) -> None:
    """Check the options that must go together."""
    if "@" in split.netloc and not address.sasl:
        _refuse(f"it has a user, and does not say how to log in; add sasl= with one of {', '.join(MECHANISMS)}")
    if address.sasl and not (address.user and address.password):
        _refuse("sasl is given without a user and a password; write kafka://user:password@host:port")
    given = [name for name in ("ca", "cert", "key") if name in options]
    if given and not address.tls:
        _refuse(f"{given[0]} is given without tls=true")
    if (address.cert is None) != (address.key is None):
        _refuse("cert and key go together: the certificate of this client, and its private key")


def _refuse(problem: str) -> NoReturn:
    raise Misconfigured(f"broker_url: {problem}")
