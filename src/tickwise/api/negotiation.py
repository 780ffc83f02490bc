"""Content negotiation: `Accept` decides whether there is an answer, `Accept-Encoding` how it is sent (RFC 9110).

    Accept ──► nothing of ours is acceptable ──► 406, before anything is done
    answer of more than 1 kB ──► gzip is acceptable ──► compressed, and its strong ETag ends in -gzip (8.8.3.3)
    If-Match, If-None-Match "…-gzip" ──► the tag without it: both encodings are of one state

Quality 0 is a refusal; the most special range that fits a type decides.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from tickwise.api.endpoint import Reply
from tickwise.api.problems import Headers, NotAcceptable

COMPRESSED_BYTES_MIN: Final = 1_024
"""A smaller answer fits into one packet either way."""
THREAD_BYTES_MIN: Final = 128 * 1_024
"""From here on it takes more than a millisecond or two, and other requests shall not wait for it."""
LEVEL: Final = 1
"""JSON shrinks to a sixth by it, and to an eighth by level 6, which takes three times as long."""
_GZIP: Final = 31
_SUFFIX: Final = b"-gzip"
_QUALITY = re.compile(r"q\s*=\s*(\d(?:\.\d{0,3})?)\Z", re.IGNORECASE)
_VARY: Final = (b"vary", b"accept-encoding")


# ------------------------------------------------------------------------------------------ Accept


def check_accept(said: bytes | None, headers: Iterable[tuple[bytes, bytes]], offered: Collection[str]) -> None:
    """Raise `NotAcceptable` if the caller reads none of what is offered. `said` is one line of the header, for a quick
    look; `headers` has all of them."""
    if said is None or _acceptable(said, tuple(offered)):
        return
    whole = b",".join(value for name, value in headers if name == b"accept")
    if not _acceptable(whole, tuple(offered)):
        raise NotAcceptable(f"this is answered as {' or '.join(offered)}; name one of them in Accept, or */*")


@lru_cache(maxsize=1_024)
def _acceptable(said: bytes, offered: tuple[str, ...]) -> bool:
    ranges = _weighed(said)
    return not ranges or any(_media_quality(media, ranges) > 0 for media in offered)


def _media_quality(media: str, ranges: Mapping[str, float]) -> float:
    kind = media.partition("/")[0]
    return next((ranges[name] for name in (media, f"{kind}/*", "*/*") if name in ranges), 0.0)


def prefers_json(said: bytes | None, other: str) -> bool:
    """Check whether the client prefers JSON to `other`. `other` is the answer if the client accepts both alike."""
    return prefers(said, "application/json", other)


def prefers(said: bytes | None, wanted: str, other: str) -> bool:
    """Check whether the client prefers one type to the other one, which is the answer if it accepts both alike."""
    ranges = {} if said is None else _weighed(said)
    return bool(ranges) and _media_quality(wanted, ranges) > _media_quality(other, ranges)


def _weighed(said: bytes) -> dict[str, float]:
    """Each range of the header with its quality. Parameters of a media type are not told apart: we have none."""
    found: dict[str, float] = {}
    for element in said.decode("latin-1").split(","):
        name, *parameters = (part.strip() for part in element.split(";"))
        if not name:
            continue
        qualities = [match[1] for match in map(_QUALITY.match, parameters) if match]
        found[name.lower()] = max(found.get(name.lower(), 0.0), float(qualities[0]) if qualities else 1.0)
    return found


# ------------------------------------------------------------------------------------------ Accept-Encoding


async def encoded(answer: Reply, headers: Mapping[bytes, bytes]) -> Reply:
    """The answer as it is sent to a caller with these headers."""
    if answer.status == 304:
        return answer._replace(headers=[*_retagged(answer.headers, headers), _VARY])
    if len(answer.body) < COMPRESSED_BYTES_MIN:
        return answer
    if not _takes_gzip(headers.get(b"accept-encoding")):
        return answer._replace(headers=[*answer.headers, _VARY])
    compress = _compressed if len(answer.body) < THREAD_BYTES_MIN else _compressed_apart
    body = compress(answer.body)
    sent = [(name, _with_suffix(value) if name == b"etag" else value) for name, value in answer.headers]
    more: Headers = [_VARY, (b"content-encoding", b"gzip")]
    return answer._replace(body=body if isinstance(body, bytes) else await body, headers=[*sent, *more])


def _compressed(body: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


async def _compressed_apart(body: bytes) -> bytes:
    return await asyncio.to_thread(_compressed, body)


@lru_cache(maxsize=256)
def _takes_gzip(said: bytes | None) -> bool:
    if said is None:
        return False
    codings = _weighed(said)
    quality = max((codings[name] for name in ("gzip", "x-gzip") if name in codings), default=codings.get("*", 0.0))
    return quality > 0 and quality >= codings.get("identity", 0.0)


def _with_suffix(tag: bytes) -> bytes:
    """The tag of the compressed form. A weak one speaks of both."""
    return tag if tag.startswith(b"W/") else tag[:-1] + _SUFFIX + b'"'


def _retagged(answered: Headers, asked: Mapping[bytes, bytes]) -> Headers:
    """A 304 bears the tag that the caller knows the answer by."""
    known = asked.get(b"if-none-match", b"")
    return [
        (name, _with_suffix(value) if name == b"etag" and _with_suffix(value) in known else value)
        for name, value in answered
    ]


def without_suffix(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a request with the tags of compressed forms as those of what they are forms of."""
    return [
        (name, value.replace(_SUFFIX + b'"', b'"') if name in (b"if-match", b"if-none-match") else value)
        for name, value in headers
    ]
