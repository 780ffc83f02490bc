"""Bodies of status pages and of announcements, and what they mean.

Invariant: a text that becomes public is one that people can see, without control characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import Labels
from tickwise.control.texts import clean_line, clean_reason
from tickwise.domain.errors import Invalid
from tickwise.domain.observing.status_pages import (
    HISTORY_DAYS,
    MAX_COMPONENTS,
    MAX_JOBS,
    MAX_UPDATES,
    STATES_OF,
    AnnouncementKind,
    AnnouncementState,
)

TITLE_CHARACTERS: Final = 120
TEXT_CHARACTERS: Final = 2_000
_SLUG: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

Slug = Annotated[
    str,
    Meta(
        min_length=1, max_length=63, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="Its name in the address `/status/SLUG`; unique in the installation. Lower-case letters, digits "
        "and hyphens.",
    ),
]  # fmt: skip
Title = Annotated[str, Meta(min_length=1, max_length=TITLE_CHARACTERS, description="Public.")]
Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS, description="Public; plain text.")]
ComponentName = Annotated[str, Meta(min_length=1, max_length=100, description="Public; unique on the page.")]
HistoryDays = Annotated[int, Meta(ge=0, le=HISTORY_DAYS, description="The days that are shown; 0: none.")]
Enabled = Annotated[bool, Meta(description="It is public, and schedulers look at its jobs.")]
ShowsUptime = Annotated[
    bool, Meta(description="Show the share of the time in which not all jobs of a component failed.")
]
ShowsPunctuality = Annotated[
    bool, Meta(description="Show the share of the time in which nothing of a component was late or failed.")
]


class ComponentBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A component: jobs under a public name. Without jobs and labels, only announcements say something of it."""

    name: ComponentName
    jobs: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=200)]],
        Meta(max_length=MAX_JOBS, description="Jobs by id, key or name."),
    ] = []
    labels: Labels = {}


Components = Annotated[list[ComponentBody], Meta(max_length=MAX_COMPONENTS)]
ComponentNames = Annotated[
    list[ComponentName], Meta(max_length=MAX_COMPONENTS, description="The components that it is about.")
]


class StatusPageBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A status page to make. It is not public unless `enabled` is true."""

    slug: Slug
    title: Title
    intro: Text = ""
    enabled: Enabled = False
    components: Components = []
    show_uptime: ShowsUptime = False
    show_punctuality: ShowsPunctuality = False
    history_days: HistoryDays = HISTORY_DAYS


class StatusPageChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of a status page to change; those that are not sent stay. A component keeps its history while it keeps
    its name."""

    slug: Slug | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    intro: Text | UnsetType = UNSET
    enabled: Enabled | UnsetType = UNSET
    components: Components | UnsetType = UNSET
    show_uptime: ShowsUptime | UnsetType = UNSET
    show_punctuality: ShowsPunctuality | UnsetType = UNSET
    history_days: HistoryDays | UnsetType = UNSET


class AnnouncementBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An incident, or a maintenance that is planned. It is public at once if its page is."""

    kind: AnnouncementKind
    title: Title
    text: Text
    state: (
        Annotated[AnnouncementState, Meta(description="Not sent: `investigating`, or `announced` of a maintenance.")]
        | UnsetType
    ) = UNSET
    components: ComponentNames = []
    begin: Annotated[datetime, Meta(tz=True, description="Not sent: now.")] | UnsetType = msgspec.field(
        name="from", default=UNSET
    )
    until: Annotated[datetime, Meta(tz=True, description="Of a maintenance: its planned end.")] | UnsetType = UNSET


class AnnouncementUpdateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A further text of an announcement, and the state from now on."""

    text: Text
    state: AnnouncementState


def clean_slug(slug: str) -> str:
    """A slug. Raises `Invalid`."""
    if not _SLUG.fullmatch(slug):
        raise Invalid("write lower-case letters, digits and hyphens, such as acme-jobs", pointer="/slug")
    return slug


def public_line(text: str, pointer: str, most: int = TITLE_CHARACTERS) -> str:
    """A public text of one line. Raises `Invalid`."""
    line = clean_line(text, pointer, most)
    clean_reason(line, pointer)
    return line


def public_text(text: str, pointer: str, *, needed: bool = False) -> str:
    """A public text, which may have several lines. Raises `Invalid`."""
    kept = text.replace("\r\n", "\n").strip()
    if needed and not kept:
        raise Invalid("write at least one character", pointer=pointer)
    if len(kept) > TEXT_CHARACTERS:
        raise Invalid(f"write at most {TEXT_CHARACTERS} characters, these are {len(kept)}", pointer=pointer)
    if any(not (each.isprintable() or each == "\n") for each in kept):
        raise Invalid("control characters are not allowed here; write plain text", pointer=pointer)
    return clean_reason(kept, pointer) or ""


def check_distinct(components: Sequence[ComponentBody]) -> None:
    """Raise `Invalid` if two components have one name."""
    seen = set[str]()
    for place, each in enumerate(components):
        name = each.name.strip()
        if name in seen:
            raise Invalid(f"two components have the name {name!r}", pointer=f"/components/{place}/name")
        seen.add(name)


def state_for(kind: AnnouncementKind, state: AnnouncementState | UnsetType) -> AnnouncementState:
    """The state of an update; the first of the kind if none was sent. Raises `Invalid`."""
    known = STATES_OF[kind]
    if isinstance(state, UnsetType):
        return known[0]
    if state not in known:
        raise Invalid(f"the state of a {kind} is one of: {', '.join(known)}", pointer="/state")
    return state


def check_updates(count: int) -> None:
    """Raise `Invalid` if an announcement with so many updates takes no more."""
    if count >= MAX_UPDATES:
        raise Invalid(f"an announcement has at most {MAX_UPDATES} updates: make another one", pointer="/text")
