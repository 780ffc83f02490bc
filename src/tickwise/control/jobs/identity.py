"""The identity token that a job asks for: checked, and made ready to be signed.

    identity_token ──► audience, algorithm, subject ──► definition, with the key of the job beside it
                └────► TokenIssuer.make_ready: a key to sign with is there before the job is stored

The key of the job stands in its definition because executors read no job: the subject of a token has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn
from uuid import UUID

import msgspec

from tickwise.control.bodies import JobBody
from tickwise.documents.definition import Definition, IdentityToken
from tickwise.domain.accounts.identity_tokens import check_subject, checked_audience
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.ports.identity.tokens import TokenIssuer

POINTER: Final = "/identity_token"
NO_ISSUER: Final = "this installation signs no identity tokens"
WITHOUT: Final = "function"
"""The kind of task that has no token: functions share the process of their worker, and so would their tokens."""


def checked_token(said: IdentityToken | None) -> IdentityToken | None:
    """The wish of a body, found good; its audience is a list. Raises `Invalid`."""
    return None if said is None else msgspec.structs.replace(said, audience=checked_audience(said.audience))


class JobFacts(NamedTuple):
    """The facts of a job that decide about its tokens."""

    namespace: str
    job_id: UUID
    key: str | None
    kind: str
    """Of its task."""


def with_identity(definition: Definition, job: JobFacts, issuer: TokenIssuer | None) -> Definition:
    """The definition with the key that its tokens name. Raises `Invalid` if the job can have no token."""
    if definition.identity_token is None:
        return definition if definition.job_key is None else msgspec.structs.replace(definition, job_key=None)
    if job.kind == WITHOUT:
        _refuse(
            "a function runs in a process that it shares with others, so it has no identity token; write the task as a "
            "script, a command or an http call"
        )
    refusal = NO_ISSUER if issuer is None else issuer.refusal(job.namespace)
    if refusal is not None:
        _refuse(refusal)
    check_subject(job.namespace, job.job_id, job.key)
    return definition if definition.job_key == job.key else msgspec.structs.replace(definition, job_key=job.key)


async def make_ready(bodies: Sequence[JobBody], namespace: str, issuer: TokenIssuer | None) -> None:
    """Let there be a key for each algorithm that the bodies ask for. Raises `Invalid` if this process cannot make one,
    `StoreUnavailable`."""
    algorithms = {body.identity_token.algorithm for body in bodies if body.identity_token}
    if issuer is None or issuer.refusal(namespace) is not None:
        return  # refused when the job is composed, with its place
    for algorithm in sorted(algorithms):
        try:
            await issuer.make_ready(algorithm)
        except Misconfigured as lack:
            raise Invalid(f"no key can be made for identity tokens: {lack.detail}", pointer=POINTER) from None


def _refuse(detail: str) -> NoReturn:
    raise Invalid(detail, pointer=POINTER)
