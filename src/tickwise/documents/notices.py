"""The lines of a notice, as the store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from tickwise.domain.notices.rules import NoticeEvent, NoticeLine, Severity


class StoredLine(msgspec.Struct, omit_defaults=True):
    """One event."""

    at: float
    event: NoticeEvent
    severity: Severity
    subject: str
    subject_name: str
    sentence: str
    run_id: UUID | None = None
    alert_id: UUID | None = None
    labels: dict[str, str] = {}
    is_repeat: bool = False


_decode: Final = msgspec.json.Decoder(list[StoredLine]).decode


def lines_document(lines: Sequence[NoticeLine]) -> str:
    """Lines as JSON text."""
    stored = [StoredLine(**{**line._asdict(), "labels": dict(line.labels)}) for line in lines]
    return msgspec.json.encode(stored).decode()


def lines_of(text: str) -> tuple[NoticeLine, ...]:
    """Lines of JSON text that `lines_document` made."""
    return tuple(
        NoticeLine(
            each.at, each.event, each.severity, each.subject, each.subject_name, each.run_id, each.sentence,
            each.alert_id, each.labels, each.is_repeat,
        )
        for each in _decode(text)
    )  # fmt: skip
