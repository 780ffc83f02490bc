# ruff: noqa: RUF001  # letters that look alike are what this is about
"""Keys of names: by which people sign in, and names of namespaces.

    "Ada " ──name_key──► "ada"      by case, width, ligature, and some letters of other scripts

Which names look alike is decided by `control.names`; a key is what people type.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tickwise.domain.errors import Invalid

_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LOOKS: Final = str.maketrans(
    # Small letters of Cyrillic, Greek and Armenian, and digits, by the Latin letter that they look like (TR 39,
    # confusables).
    "аеорсухіјѕһԁԛԝьαενορτυικχոսց01",
    "aeopcyxijshdqwbaevoptuikxnugol",
)


def name_key(name: str) -> str:
    """The key of a name: two names with one key are one name. Keys are stored: never change one."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(folded.translate(_LOOKS).split())


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
