"""The address of the queues with every option, as an operator writes it.

    sqs://REGION/PREFIX[?endpoint=https://…&lanes=3&buckets=64&…]

Credentials are never part of it: they come by the usual chain of AWS (environment, files, web identity, the machine).
Invariant: each fault is reported as `Misconfigured`, with the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote, urlsplit

from tickwise.domain.errors import Misconfigured
from tickwise.ports.broker import PRIORITIES

SCHEME: Final = "sqs"
REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
ENDPOINT: Final = re.compile(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?")
HOUR_SECONDS: Final = 3_600
DAY_SECONDS: Final = 24 * HOUR_SECONDS


class Number(NamedTuple):
    """The limits of an option."""

    least: int
    most: int


NUMBERS: Final[Mapping[str, Number]] = {
    "lanes": Number(1, PRIORITIES),
    "buckets": Number(1, 1_024),
    "hints_hours": Number(1, 24),
    "requests_days": Number(1, 14),
    "dead_days": Number(1, 14),
    "visibility_seconds": Number(2, 3_600),
    "wait_seconds": Number(1, 20),
    "confirm_seconds": Number(1, 60),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsAddress:
    """The queues of one cluster of Tickwise, and how we use them. Each field from `endpoint` on is one option."""

    region: str
    prefix: str
    """Queues are `{prefix}-requests.fifo` and so on. One cluster of Tickwise has it for itself."""
    endpoint: str = ""
    """Of another server than that of the region."""
    lanes: int = 3
    """Queues of hints for each group of executors; each is asked for messages by itself."""
    buckets: int = 64
    """Message groups of each queue. Messages of one bucket are in order and under way at one consumer at a time. AWS
    counts its limit of messages a second for each."""
    hints_hours: int = 1
    requests_days: int = 7
    dead_days: int = 14
    visibility_seconds: int = 30
    """A consumer that fell silent keeps its messages for so long; one that lives renews the time."""
    wait_seconds: int = 2
    """One question to a queue waits so long for the first message. A stop waits for it."""
    confirm_seconds: int = 10
    """The longest time that a message may wait to be confirmed."""


def read_address(url: str) -> SqsAddress:
    """Raises `Misconfigured`."""
    try:
        parts = urlsplit(url)
        said = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        has_more = bool(parts.username or parts.password or parts.port or parts.fragment)
    except ValueError:
        _refuse("it cannot be read")
    if parts.scheme != SCHEME:
        _refuse("it does not begin with sqs://")
    if has_more:
        _refuse("it has a user, a port or a fragment; credentials come by the chain of AWS, a server by endpoint=")
    region, prefix = parts.netloc, unquote(parts.path).strip("/")
    if not REGION.fullmatch(region):
        _refuse(f"the region is {region!r}, and must be a name such as eu-central-1")
    if not PREFIX.fullmatch(prefix):
        _refuse(f"the prefix is {prefix!r}, and must have 1 to 40 letters, digits, '_' or '-'")
    numbers: dict[str, int] = {}
    endpoint = ""
    for name, text in said:
        if name in numbers or (name == "endpoint" and endpoint):
            _refuse(f"{name} is said twice")
        if name == "endpoint":
            if not ENDPOINT.fullmatch(text):
                _refuse(f"endpoint is {text!r}, and must be an address such as https://sqs.example.com")
            endpoint = text
        elif name in NUMBERS:
            numbers[name] = _number(name, text)
        else:
            _refuse(f"it has no option {name!r}; there are endpoint, {', '.join(NUMBERS)}")
    return SqsAddress(region=region, prefix=prefix, endpoint=endpoint, **numbers)


def _number(name: str, text: str) -> int:
    limits = NUMBERS[name]
    if not re.fullmatch(r"\d{1,9}", text) or not limits.least <= int(text) <= limits.most:
        _refuse(f"{name} is {text!r}, and must be a whole number from {limits.least} to {limits.most}")
    return int(text)


def _refuse(why: str) -> NoReturn:
    raise Misconfigured(f"broker_url is sqs://REGION/PREFIX?endpoint=…, and {why}")
