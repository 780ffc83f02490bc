"""The outcomes of tries, with texts in which no secret is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tickwise.domain.excerpts import one_line
from tickwise.domain.notices.channels import without_secrets
from tickwise.ports.senders import DeliveryOutcome, DeliveryResult

ERROR_CHARACTERS: Final = 500

DELIVERED: Final = DeliveryResult(DeliveryOutcome.DELIVERED)
UNTRIED: Final = DeliveryResult(DeliveryOutcome.UNTRIED)


def later(
    why: str, secrets: Mapping[str, str], *, retry_after: float | None = None, served: Sequence[str] = ()
) -> DeliveryResult:
    """Another try may succeed. `served`: the recipients who have it."""
    return DeliveryResult(DeliveryOutcome.LATER, _shown(why, secrets), retry_after, served)


def refused(why: str, secrets: Mapping[str, str]) -> DeliveryResult:
    """No further try can succeed."""
    return DeliveryResult(DeliveryOutcome.REFUSED, _shown(why, secrets))


def _shown(why: str, secrets: Mapping[str, str]) -> str:
    return one_line(without_secrets(why, secrets), ERROR_CHARACTERS)
