"""Identity tokens: the signed statement which run a task is, that clouds and Vault trust in place of a stored key.

    ns:reports:job:nightly:run:0192…   the subject of one run
    ns:reports:job:nightly             the same, with `subject: job`, for those that match a subject as a whole

Invariant: two jobs never have one subject, and no name of one part reads as the next part. A colon and a percent sign
in a key are percent-encoded, and a key with the form of an id has no token unless it is the id of its own job.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.errors import Invalid

TOKEN_SECONDS: Final = 3_600.0
"""The longest life of a token."""
AUDIENCES_MAX: Final = 10
AUDIENCE_CHARACTERS_MAX: Final = 500
SUBJECT_BYTES_MAX: Final = 255
"""OpenID Connect Core, section 2: a subject has at most 255 ASCII characters."""
_ESCAPED: Final = str.maketrans({"%": "%25", ":": "%3A"})
_PLAIN: Final = re.compile(r"[\x21-\x7e]+", re.ASCII)


class TokenAlgorithm(StrEnum):
    """The signature of a token."""

    RS256 = "RS256"
    """RSA with 2,048 bits and SHA-256. All clouds take it."""
    EDDSA = "EdDSA"
    """Ed25519: short, and quick to make. Vault takes it; AWS, Azure and GCP do not."""


class TokenSubject(StrEnum):
    """The precision of a token's subject."""

    RUN = "run"
    JOB = "job"


class TokenWish(NamedTuple):
    """The token that a job asks for, for each of its attempts."""

    audience: tuple[str, ...]
    algorithm: TokenAlgorithm
    subject: TokenSubject
    job_key: str | None
    """None: the job has no key, and its id stands in place of it."""


class TokenFacts(NamedTuple):
    """The attempt that a token speaks of."""

    wish: TokenWish
    namespace: str
    job_id: UUID
    run_id: UUID
    attempt: int


def subject_of(facts: TokenFacts) -> str:
    """The subject of an attempt's token."""
    key = facts.wish.job_key
    job = f"ns:{facts.namespace}:job:{str(facts.job_id) if key is None else key.translate(_ESCAPED)}"
    return job if facts.wish.subject is TokenSubject.JOB else f"{job}:run:{facts.run_id}"


def executor_subject(namespace: str) -> str:
    """The subject of the token with which executors ask for the secrets of a namespace. No job has it, nor one that a
    pattern for it would take: those of jobs begin with `ns:`."""
    return f"executor:ns:{namespace}"


def checked_audience(said: str | Sequence[str]) -> tuple[str, ...]:
    """The audiences that a job names. Raises `Invalid`."""
    found = (said,) if isinstance(said, str) else tuple(said)
    if not found or len(found) > AUDIENCES_MAX:
        raise Invalid(
            f"an identity token has 1 to {AUDIENCES_MAX} audiences; name the one that the other side asks for, such as "
            "sts.amazonaws.com",
            pointer="/identity_token/audience",
        )
    for each in found:
        if len(each) > AUDIENCE_CHARACTERS_MAX or _PLAIN.fullmatch(each) is None:
            raise Invalid(
                f"an audience has 1 to {AUDIENCE_CHARACTERS_MAX} visible ASCII characters and no blank, such as "
                "https://vault.example.com",
                pointer="/identity_token/audience",
            )
    return found


def check_subject(namespace: str, job_id: UUID, key: str | None) -> None:
    """Raises `Invalid` for a job whose key cannot be part of a subject."""
    if key is None:
        return
    if not key.isascii() or not key.isprintable():
        raise Invalid(
            "the key of a job with an identity token has ASCII characters alone: it is part of the token's subject",
            pointer="/key",
        )
    if _is_id(key) and key != str(job_id):
        raise Invalid(
            "the key of a job with an identity token has not the form of a job's id: the token of another job could "
            "have the same subject; choose another key",
            pointer="/key",
        )
    wish = TokenWish((), TokenAlgorithm.RS256, TokenSubject.RUN, key)
    longest = len(subject_of(TokenFacts(wish, namespace, job_id, job_id, 1)))
    if longest > SUBJECT_BYTES_MAX:
        raise Invalid(
            f"the subject of its identity token would have {longest} characters, {SUBJECT_BYTES_MAX} are the most; "
            "choose a shorter key",
            pointer="/key",
        )


def namespace_refusal(namespace: str, allowed: Collection[str]) -> str | None:
    """The reason for which a namespace has no tokens; None: it has. `allowed` is the setting; empty: all."""
    if not allowed or namespace in allowed:
        return None
    return (
        f"the namespace {namespace!r} has no identity tokens: TICKWISE_IDENTITY_NAMESPACES names those that have; ask "
        "an administrator"
    )


def _is_id(key: str) -> bool:
    try:
        return str(UUID(key)) == key.lower()
    except ValueError:
        return False
