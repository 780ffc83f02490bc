"""Makes the signers and verifiers of messages at the broker from the settings (`roles/shared/signatures.py`).

The library of signatures comes with the broker's client, so it is imported only where there is a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from tickwise.config import SETTINGS, Settings
from tickwise.control.keys.secrets import check_strength
from tickwise.domain.errors import Misconfigured
from tickwise.ports.signing import Signer
from tickwise.ports.store import Store
from tickwise.roles.shared.signatures import RequestCheck, ResultCheck, ResultsSigning, Unsigned

if TYPE_CHECKING:
    from tickwise.adapters.signing import SharedSecrets

_DAY_SECONDS: Final = 86_400.0

logger = structlog.get_logger("tickwise.wiring")


def requests_signer(settings: Settings) -> Signer | None:
    """The signer of an API's requests; None: no secret is set, and requests go unsigned. Raises `Misconfigured`."""
    if not settings.requests_keys:
        _warn("this API signs no requests")
        return None
    return _secrets(settings)


def request_check(settings: Settings, cluster: str) -> RequestCheck:
    """The verifier of a recorder for requests. Raises `Misconfigured`, also if it would refuse all of them."""
    verifier: SharedSecrets | None = None
    unsigned = Unsigned(settings.unsigned_messages)
    if settings.requests_keys:
        verifier = _secrets(settings)
    elif unsigned is Unsigned.REFUSED:
        raise Misconfigured(
            "unsigned_messages is refused, and requests_keys is not set, so this recorder would refuse every request: "
            "set TICKWISE_REQUESTS_KEYS as for the APIs, or leave unsigned_messages at older"
        )
    else:
        _warn("this recorder accepts unsigned requests")
    kept = min(settings.retention_runs_days, settings.retention_failed_days) * _DAY_SECONDS
    return RequestCheck(verifier, cluster=cluster, unsigned=unsigned, kept_seconds=kept)


def results_signing(cluster: str) -> ResultsSigning:
    """The signer of an executor's results."""
    from tickwise.adapters.signing import Ed25519Keys

    return ResultsSigning(Ed25519Keys(), cluster)


def result_check(settings: Settings, store: Store, cluster: str) -> ResultCheck:
    """The verifier of a recorder for results."""
    from tickwise.adapters.signing import Ed25519Keys

    return ResultCheck(Ed25519Keys(), store.executors, cluster=cluster, unsigned=Unsigned(settings.unsigned_messages))


def _secrets(settings: Settings) -> SharedSecrets:
    """Raises `Misconfigured` for a secret that can be guessed."""
    from tickwise.adapters.signing import SharedSecrets

    for secret in settings.requests_keys:
        check_strength(secret, SETTINGS["requests_keys"].variable)
    return SharedSecrets(settings.requests_keys)


def _warn(what: str) -> None:
    logger.warning(
        "requests_unsigned",
        detail=f"requests_keys is not set: {what}; a client that can write the topic of requests can act as any key",
    )
