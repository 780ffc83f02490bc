"""Names of people and keys: which characters they have, and which two look alike.

    "Ada " ──clean_name──► "Ada"            PRECIS (RFC 8265): no blanks, invisible characters and symbols; scripts
                                            that are written together (Unicode TR 39, highly restrictive)
    "paul", "pauI" ──looks──► one in common    skeletons (Unicode TR 39, confusables)

A name that looks like another one lets its owner be taken for somebody else, in an audit log, in a mail, in a list of
members. So no two people have names that look alike. Names from before this was checked stay as they are.

A skeleton goes by the letters as they are written: "I" looks like "l", and "i" does not. People sign in in any case of
letters, so a name has two looks: that of its letters, and that of its small letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from tickwise.domain.errors import Invalid
from tickwise.ports.identity.users import UserStore

NAME_CHARACTERS_MAX: Final = 100
EMAIL_CHARACTERS_MAX: Final = 254
LOOKS_AT_ONCE: Final = 500
RESERVED: Final = ("admin", "local", "system", "tickwise")
"""Names of programs in logs and the audit log: no person has one."""

_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_TOGETHER: Final = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
"""Scripts of one language (TR 39, section 5.2)."""
_OF_ANY: Final = frozenset({"COMMON", "INHERITED", None})
_SEEN: Final = ("PVALID", "CONTEXTO")
"""Properties of the characters that PRECIS allows in identifiers, joiners left out."""


def clean_name(text: str, pointer: str) -> str:
    """The name of a person as it is kept. Raises `Invalid`."""
    name = " ".join(unicodedata.normalize("NFC", text).strip().split(" "))
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise Invalid(f"a name has 1 to {NAME_CHARACTERS_MAX} characters", pointer=pointer)
    if "@" in name:
        raise Invalid("a name has no @: the e-mail has a field of its own", pointer=pointer)
    for part in filter(None, name.split(" ")):
        _check_characters(part, "name", pointer)
    _check_scripts(name, "name", pointer)
    check_not_reserved(name, pointer, RESERVED)
    return name


def check_not_reserved(name: str, pointer: str, reserved: Iterable[str]) -> None:
    """Raises `Invalid` for a name that looks like one of these, in small or in capital letters."""
    for each in reserved:
        if are_alike(name, each) or are_alike(name, each.upper()):
            raise Invalid(
                f"the name {each}, and what looks like it, is the installation's own; choose another", pointer=pointer
            )


def clean_email(text: str, pointer: str) -> str:
    """An e-mail address as it is kept. Raises `Invalid`."""
    email = text.strip()
    if len(email) > EMAIL_CHARACTERS_MAX or _EMAIL.fullmatch(email) is None:
        raise Invalid("that is no e-mail address; write it as name@example.org", pointer=pointer)
    local = email.partition("@")[0]
    if not local.isascii():
        _check_characters(local, "e-mail", pointer)
        _check_scripts(local, "e-mail", pointer)
        # An address of plain letters is somebody else's. Those of one script that differ are two, as for mail servers.
        if any(look.isascii() for look in looks(local)):
            raise Invalid(
                "the e-mail looks like one in plain Latin letters: write it in these, if it is that one",
                pointer=pointer,
            )
    return email


def are_alike(one: str, other: str) -> bool:
    """Check whether two names look alike."""
    return not set(looks(one)).isdisjoint(looks(other))


def looks(name: str) -> tuple[str, ...]:
    """The looks of a name, sorted: two names with one in common look alike. What cannot be seen is left out."""
    shown = "".join(filter(_is_seen, unicodedata.normalize("NFKC", name)))
    shown = " ".join(shown.split())
    found = {_skeleton(_skeleton(shown).casefold()), _skeleton(shown.casefold())}
    return tuple(sorted(found))


async def complete_looks(users: UserStore) -> None:
    """Give looks to people that an earlier release added, so that new names are compared with theirs."""
    names: Mapping[UUID, str] = {}
    while names := await users.complete_looks({user_id: looks(name) for user_id, name in names.items()}, LOOKS_AT_ONCE):
        pass


def _skeleton(text: str) -> str:
    """The skeleton of TR 39, section 4."""
    prototypes = _prototypes()
    mapped = "".join([prototypes.get(each, each) for each in unicodedata.normalize("NFD", text)])
    return unicodedata.normalize("NFD", mapped)


def _is_seen(character: str) -> bool:
    return character == " " or _derived(character)[0] in _SEEN


@lru_cache(maxsize=4_096)
def _derived(character: str) -> tuple[str, str]:
    """The property of a character for PRECIS, and its reason (RFC 8264, section 8)."""
    from precis_i18n.derived import derived_property
    from precis_i18n.unicode import UnicodeData

    found: tuple[str, str] = derived_property(ord(character), UnicodeData())
    return found


@lru_cache(maxsize=1)
def _prototypes() -> dict[str, str]:
    """The prototype of each character that looks like others. The library has each pair both ways: the prototype is the
    side with more of them, or with several characters."""
    # 0.9 MB of JSON, 20 ms: only where a name is chosen.
    from confusable_homoglyphs import confusables  # type: ignore[import-untyped] # it has no types

    pairs: dict[str, list[str]] = {}
    for text, others in confusables.confusables_data.items():
        pairs.setdefault(_plain(text), []).extend(_plain(other["c"]) for other in others)
    found = {}
    for text, others in pairs.items():
        for other in others:
            if len(text) == 1 and _rank(other, pairs) > _rank(text, pairs):
                found[text] = other
    return {text: "".join([found.get(each, each) for each in other]) for text, other in found.items()}


def _plain(text: str) -> str:
    """The characters without the marks that TR 39's file has around those that are written from right to left."""
    return text.replace("\u200e", "")


def _rank(text: str, pairs: dict[str, list[str]]) -> tuple[bool, int, bool, str]:
    """The greater one of a pair is the prototype; between equals, the plainer one."""
    return len(text) > 1, len(pairs.get(text, ())), text.isascii(), text


def _check_characters(text: str, what: str, pointer: str) -> None:
    """Raises `Invalid` for a character that is none of an identifier (RFC 8265, section 3)."""
    from precis_i18n import get_profile

    try:
        get_profile("UsernameCasePreserved").enforce(text)
    except UnicodeEncodeError as error:
        if error.reason.endswith("bidi_rule"):
            raise Invalid(
                f"the {what} mixes directions of writing so that its parts change places: write it in one",
                pointer=pointer,
            ) from error
        character = f"U+{ord(text[max(error.start, 0)]):04X}"
        raise Invalid(
            f"the character {character} is none of a {what}: it cannot be seen, is a symbol, or stands for others; "
            "leave it out",
            pointer=pointer,
        ) from error


def _check_scripts(text: str, what: str, pointer: str) -> None:
    """Raises `Invalid` for letters of scripts that are not written together."""
    from confusable_homoglyphs import categories

    scripts = frozenset(categories.alias(each) for each in text) - _OF_ANY
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        raise Invalid(
            f"the {what} mixes letters of {' and '.join(sorted(script.title() for script in scripts))}, of which some "
            "look the same: write it in one script",
            pointer=pointer,
        )
