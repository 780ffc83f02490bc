"""Every error of ours, one tree, branching by what the caller should do.

    TickwiseError
    ├── Refused               fix the request, then send it again
    │   ├── Invalid             422  a field is wrong; `pointer` says which
    │   │   └── CronInvalid          … and `position` says where in the line
    │   ├── Malformed           400  the body is no JSON at all
    │   ├── Unauthenticated     401
    │   │   └── SecondFactorRequired … the password is right, and a second factor is to be shown
    │   ├── NoTokenGiven        400  a terminal waits for a person
    │   ├── Forbidden           403
    │   │   └── NoLongerAllowed      … when it was to be carried out
    │   ├── NotFound            404
    │   │   └── JobNotFound          … no such job
    │   │       └── NeverAccepted    … and no request on its way makes it
    │   ├── Conflict            409  the thing's state does not allow it
    │   │   ├── SealingKeyUnset     … no key for secrets is set
    │   │   └── KeyReused       422  an Idempotency-Key came back with another body
    │   ├── VersionConflict     412  somebody else changed it first: read again, then decide
    │   └── TooLarge            413
    ├── Unavailable           wait, then send the same again; nothing is lost
    │   ├── StoreUnavailable    503  the store could not be reached: nothing was written
    │   │   └── ShardUnavailable     … nor in these shards of it; what was for others may be written
    │   ├── NamespaceMoved      503  the namespace is in another database, or is on its way there: nothing was written
    │   ├── InDoubt             503  the link broke during a commit: it may or may not have been written
    │   ├── BrokerUnavailable   503  the broker did not confirm in time: it may or may not have it
    │   ├── SealingUnavailable  503  the command that has the key for secrets does not answer
    │   ├── ProviderUnavailable 503  the provider that signs people in is away: nobody was signed in
    │   └── Busy                429  a bounded buffer is full
    ├── Misconfigured         an operator must act: settings, ports, disks, versions
    │   └── NotOpened             … a sealed value whose key is gone, or whose bytes were changed
    └── Bug                   report it: a state that the code holds impossible

Adapters translate their drivers' errors at their edge. The API maps this tree to RFC 9457 problems in
one place, `api/problems.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar
from uuid import UUID


class TickwiseError(Exception):
    """The root. `detail` is a sentence that says what is wrong and what to do; `code` is stable for programs."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Refused(TickwiseError):
    """The request cannot be carried out as it is; the same request will be refused again."""

    code = "refused"

    def __init__(self, detail: str, *, pointer: str | None = None) -> None:
        """`pointer` is an RFC 6901 JSON pointer to the field at fault, `""` for the whole body."""
        super().__init__(detail)
        self.pointer = pointer


class Invalid(Refused):
    """A field is missing, unknown, of the wrong type, or contradicts another."""

    code = "invalid"

    def __init__(self, detail: str, *, pointer: str | None = None, code: str | None = None) -> None:
        """`code` narrows the class's own where a program may want to tell cases apart."""
        super().__init__(detail, pointer=pointer)
        if code is not None:
            self.code = code  # type: ignore[misc]  # one narrowed value per instance, the class keeps its default


class CronInvalid(Invalid):
    """A cron line that cannot be read. `position` is the offset of the field at fault in the line, in characters;
    `hint` says what to write instead, and ends the `detail`, too."""

    code = "cron_invalid"

    def __init__(self, problem: str, *, position: int, hint: str, pointer: str = "/cron_expression") -> None:
        super().__init__(f"{problem}; {hint}", pointer=pointer)
        self.position = position
        self.hint = hint


class Malformed(Refused):
    """The body is not what its media type says."""

    code = "malformed"


class Unauthenticated(Refused):
    """The request has no key, or one that is not known."""

    code = "unauthenticated"


class NoTokenGiven(Refused):
    """A terminal that waits for a person's approval gets no tokens yet, or none at all (RFC 8628, section 3.5)."""

    code = "no_token_given"

    def __init__(self, detail: str, *, code: str) -> None:
        super().__init__(detail)
        self.code = code  # type: ignore[misc]  # one narrowed value per instance, the class keeps its default


class PasswordLimited(Unauthenticated):
    """The password was chosen, or could be, by an administrator who may do less than the person may now."""

    code = "password_limited"


class PasswordSignInOff(Unauthenticated):
    """This installation takes no password of this person: a provider signs people in."""

    code = "password_sign_in_off"


class SecondFactorRequired(Unauthenticated):
    """The password is right, and a second factor is to be shown, with the secret of this step."""

    code = "second_factor_required"

    def __init__(self, detail: str, *, challenge: str, factors: tuple[str, ...], expires_in: int) -> None:
        """`factors`: the kinds that can be shown; `expires_in` in seconds."""
        super().__init__(detail)
        self.challenge = challenge
        self.factors = factors
        self.expires_in = expires_in


class SecondFactorWrong(Unauthenticated):
    """A second factor that is wrong or was used before. The same step takes another one."""

    code = "second_factor_wrong"


class SecondFactorOver(Unauthenticated):
    """The step that waited for a second factor has ended: sign in again."""

    code = "second_factor_over"


class RangeNotSatisfiable(Refused):
    """The file has none of the bytes that `Range` asks for."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes, and none in this range")
        self.size = size


class Forbidden(Refused):
    """The key is known, and may not do this."""

    code = "forbidden"


class NoLongerAllowed(Forbidden):
    """The caller lost the permission between the request and its execution."""

    code = "no_longer_allowed"


class SecondFactorMissing(Forbidden):
    """A role of the person requires a second factor, and there is none."""

    code = "second_factor_missing"


class NotFound(Refused):
    """The thing does not exist in this namespace."""

    code = "not_found"


class JobNotFound(NotFound):
    """There is no such job in this namespace. A request that was accepted may be on its way to make it."""

    def __init__(self, detail: str, *, job_id: UUID) -> None:
        super().__init__(detail)
        self.job_id = job_id


class NeverAccepted(JobNotFound):
    """There is no such job, and no request that was accepted makes it."""


class Conflict(Refused):
    """The thing exists, and its present state does not allow what was asked."""

    code = "conflict"

    def __init__(self, detail: str, *, pointer: str | None = None, code: str | None = None) -> None:
        super().__init__(detail, pointer=pointer)
        if code is not None:
            self.code = code  # type: ignore[misc]  # one narrowed value per instance, the class keeps its default


class SealingKeyUnset(Conflict):
    """Nothing can be encrypted: this installation has no key for secrets."""

    code = "sealing_key_unset"

    def __init__(self) -> None:
        super().__init__(
            "this installation has no key for secrets: set TICKWISE_SECRETS_KEY for its APIs and executors (tickwise "
            "secrets new-key makes one), TICKWISE_SECRETS_KEY_FILE or TICKWISE_SECRETS_KEY_COMMAND"
        )


class KeyReused(Conflict):
    """An Idempotency-Key that was used with another body, or with other permissions, before."""

    code = "idempotency_key_reused"


class VersionConflict(Refused):
    """`If-Match` names a version that is no longer the newest."""

    code = "version_conflict"


class TooLarge(Refused):
    """The body is over its limit."""

    code = "too_large"


class Unavailable(TickwiseError):
    """A service that the call needs is away or full. The same call may succeed later."""

    code = "unavailable"

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds


class StoreUnavailable(Unavailable):
    """The store could not be reached. Nothing of this call was written."""

    code = "store_unavailable"


class KeeperAway(StoreUnavailable):
    """No keeper answers for a shard. Nothing of this call was written."""


class CassandraAway(StoreUnavailable):
    """Cassandra does not answer a role or a keeper. Nothing of this call was written."""


class ShardUnavailable(StoreUnavailable):
    """Databases of some shards could not be reached. Nothing was written there; parts of the call that concern
    namespaces of other shards may be."""

    def __init__(self, detail: str, *, shards: Collection[int] = (), retry_after_seconds: float = 1.0) -> None:
        super().__init__(detail, retry_after_seconds=retry_after_seconds)
        self.shards = frozenset(shards)


class NamespaceMoved(Unavailable):
    """The namespace has left this database, or is leaving it. Nothing of this call was written: read the map of shards
    again, then send the same there."""

    code = "namespace_moved"

    def __init__(self, namespace: str) -> None:
        super().__init__(f"the namespace {namespace} is being moved to another database: send the same again")
        self.namespace = namespace


class InDoubt(Unavailable):
    """The link broke while a commit was under way: the write is whole or absent; which of the two is unknown.

    Every write of the store ports may be repeated with the same ids: twice is once.
    """

    code = "in_doubt"


class BrokerUnavailable(Unavailable):
    """The broker could not be reached, or did not confirm in time. The message may have arrived, or may arrive
    later."""

    code = "broker_unavailable"


class Busy(Unavailable):
    """A bounded buffer is full; nothing was taken."""

    code = "busy"


class SignInPaced(Busy):
    """Too many attempts to sign in came from this address, or with this name from its network. Nothing was tried."""

    code = "sign_in_paced"


class TokensUnavailable(Unavailable):
    """This process makes no tokens: it has no key to sign them with."""

    code = "tokens_unavailable"


class SealingUnavailable(Unavailable):
    """Nothing can be encrypted or decrypted now: the command that has the key for secrets fails."""

    code = "sealing_unavailable"


class ProviderUnavailable(Unavailable):
    """The provider that signs people in did not answer, or not as a provider does. Nobody was signed in."""

    code = "provider_unavailable"


class Misconfigured(TickwiseError):
    """The program cannot start or go on as it is set up; the message says what an operator should change."""

    code = "misconfigured"


class NotOpened(Misconfigured):
    """A sealed value cannot be decrypted: its key is not among those that are set, or its bytes were changed."""

    code = "not_opened"


class Bug(TickwiseError):
    """A state that cannot be. Never caught to go on; always reported with its ids."""

    code = "bug"
