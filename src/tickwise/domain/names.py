# ruff: noqa: RUF001  # letters that look alike are what this is about
"""Names of people and namespaces: which names are accepted, and which two look alike.

    "Ada " ──clean──► "Ada" ──likeness──► "ada"      Unicode TR 39: what looks the same is the same

A name that looks like another one lets its owner be taken for somebody else, in an audit log, in a mail, in a list of
members. So no two names have one likeness, and a name is written in one script.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tickwise.domain.errors import Invalid

NAME_CHARACTERS_MAX: Final = 100
EMAIL_CHARACTERS_MAX: Final = 254

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_EMAIL: Final = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "HEBREW", "ARABIC", "GEORGIAN", "CHEROKEE", "COPTIC")
"""Scripts with letters that look like those of another one."""
_LOOKS: Final = str.maketrans(
    # Small letters of Cyrillic, Greek and Armenian, and digits, by the Latin letter that they look like (TR 39,
    # confusables).
    "аеорсухіјѕһԁԛԝьαενορτυικχոսց01",
    "aeopcyxijshdqwbaevoptuikxnugol",
)


def clean_name(text: str, pointer: str) -> str:
    """A name as it is kept. Raises `Invalid`."""
    name = unicodedata.normalize("NFC", text).strip()
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise Invalid(f"a name has 1 to {NAME_CHARACTERS_MAX} characters", pointer=pointer)
    if "@" in name:
        raise Invalid("a name has no @: the e-mail has a field of its own", pointer=pointer)
    for character in name:
        if unicodedata.category(character)[0] in "CZ" and character != " ":
            raise Invalid(f"the character U+{ord(character):04X} cannot be seen; leave it out", pointer=pointer)
    scripts = {
        script for character in name for script in _SCRIPTS if unicodedata.name(character, "").startswith(script)
    }
    if len(scripts) > 1:
        raise Invalid(
            f"the name mixes letters of {' and '.join(sorted(script.title() for script in scripts))}, of which some "
            "look the same: write it in one script",
            pointer=pointer,
        )
    return name


def likeness(name: str) -> str:
    """The look of a name: two names with one likeness are one name."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.translate(_LOOKS).split())


def clean_email(text: str, pointer: str) -> str:
    """An e-mail address as it is kept. Raises `Invalid`."""
    email = text.strip()
    if len(email) > EMAIL_CHARACTERS_MAX or _EMAIL.fullmatch(email) is None:
        raise Invalid("that is no e-mail address; write it as name@example.org", pointer=pointer)
    return email


def email_key(email: str) -> str:
    """The address as it is compared. What stands before the @ may differ by case at some servers; for people it does
    not."""
    return unicodedata.normalize("NFKC", email).casefold()


def clean_namespace(text: str, pointer: str) -> str:
    """The name of a namespace: a label of DNS, so that it can stand in paths, topics and labels of Kubernetes. Raises
    `Invalid`."""
    if _NAMESPACE.fullmatch(text) is None:
        raise Invalid(
            "a namespace has 1 to 63 small letters, digits and hyphens, with no hyphen first or last", pointer=pointer
        )
    return text
