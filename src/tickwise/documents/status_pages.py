"""The parts of status pages and announcements that the store keeps as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from tickwise.domain.observing.status_pages import (
    HISTORY_DAYS,
    AnnouncementState,
    AnnouncementUpdate,
    ComponentState,
    StatusComponent,
    StatusPage,
)


class _Component(msgspec.Struct):
    """A component as it is stored."""

    name: str
    jobs: tuple[UUID, ...] = ()
    labels: dict[str, str] = {}


class _Page(msgspec.Struct):
    """The choices of a page as they are stored."""

    intro: str = ""
    components: tuple[_Component, ...] = ()
    uptime: bool = False
    punctuality: bool = False
    days: int = HISTORY_DAYS


class _Update(msgspec.Struct):
    """An update as it is stored."""

    at: float
    state: AnnouncementState
    text: str


_page: Final = msgspec.json.Decoder(_Page).decode
_states: Final = msgspec.json.Decoder(dict[str, ComponentState]).decode
_updates: Final = msgspec.json.Decoder(tuple[_Update, ...]).decode


def encode_choices(page: StatusPage) -> str:
    """The choices of a page."""
    components = tuple(_Component(each.name, each.jobs, dict(each.labels)) for each in page.components)
    said = _Page(page.intro, components, page.shows_uptime, page.shows_punctuality, page.history_days)
    return msgspec.json.encode(said).decode()


def decode_choices(text: str) -> Mapping[str, Any]:
    """The choices of a page, as fields of `StatusPage`."""
    said = _page(text)
    return {
        "intro": said.intro,
        "components": tuple(
            StatusComponent(name=each.name, jobs=each.jobs, labels=each.labels) for each in said.components
        ),
        "shows_uptime": said.uptime,
        "shows_punctuality": said.punctuality,
        "history_days": said.days,
    }


def encode_states(states: Mapping[str, ComponentState]) -> str:
    """The states of components by their names."""
    return msgspec.json.encode(states).decode()


def decode_states(text: str) -> Mapping[str, ComponentState]:
    """The states of components by their names."""
    return _states(text)


def encode_updates(updates: tuple[AnnouncementUpdate, ...]) -> str:
    """The updates of an announcement."""
    return msgspec.json.encode([_Update(*each) for each in updates]).decode()


def decode_updates(text: str) -> tuple[AnnouncementUpdate, ...]:
    """The updates of an announcement."""
    return tuple(AnnouncementUpdate(each.at, each.state, each.text) for each in _updates(text))
