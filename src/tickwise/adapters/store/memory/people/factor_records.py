"""The records of second factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tickwise.ports.identity.factors import Factor, FactorReset, NewStep


@dataclass(slots=True)
class RecoveryRecord:
    """A recovery code."""

    made_at: float
    use_id: UUID | None = None


@dataclass(slots=True)
class StepRecord:
    """A step that waits, or was settled."""

    step: NewStep
    expires_at: float
    tries: int = 0
    use_id: UUID | None = None


@dataclass(slots=True)
class FactorRecords:
    """Everything about second factors."""

    factors: dict[UUID, Factor] = field(default_factory=dict)
    recovery: dict[UUID, dict[bytes, RecoveryRecord]] = field(default_factory=dict)
    """By person, then by digest."""
    steps: dict[bytes, StepRecord] = field(default_factory=dict)
    resets: dict[UUID, FactorReset] = field(default_factory=dict)
