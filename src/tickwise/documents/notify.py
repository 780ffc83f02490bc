"""The channels that a job names in its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tickwise.domain.notices.rules import MAX_CHANNELS_OF_RULE


class _Notify(msgspec.Struct):
    """The one field of a definition that is read."""

    notify: tuple[str, ...] = ()


_decode: Final = msgspec.json.Decoder(_Notify).decode


def channel_names(definition: str | None) -> Sequence[str]:
    """The names of the channels; none of a definition that cannot be read."""
    if definition is None or '"notify"' not in definition:
        return ()
    try:
        return _decode(definition).notify[:MAX_CHANNELS_OF_RULE]
    except msgspec.DecodeError:
        return ()
