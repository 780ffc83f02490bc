"""The place of passkeys, by the address of the pages, and what browsers are handed and answer."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from markupsafe import Markup

from tickwise.control.factors.codes import picture_of
from tickwise.control.factors.enrolments import CodesEnrolment
from tickwise.control.factors.passkeys import RESPONSE_CHARACTERS_MAX, Options, PasskeyPlace
from tickwise.domain.errors import Invalid
from tickwise.web.visit import Visit

CODE_CHARACTERS_MAX: Final = 100
SECRET_CHARACTERS_MAX: Final = 200
NAME_CHARACTERS_MAX: Final = 100


def place_of(visit: Visit) -> PasskeyPlace | None:
    """The place where passkeys of this browser are made and shown; None: no browser makes them at such an address.
    They need https, or localhost, and the name of a host: an address of numbers is none (WebAuthn, section 5.1.2)."""
    origin = visit.transport.origin(visit.request)
    parts = urlsplit(origin)
    host = parts.hostname or ""
    named = any(letter.isalpha() for letter in host.rpartition(".")[2]) and ":" not in host
    safe = parts.scheme == "https" or host == "localhost" or host.endswith(".localhost")
    return PasskeyPlace(host, origin) if named and safe else None


def sure_place(visit: Visit) -> PasskeyPlace:
    """The place of passkeys. Raises `Invalid` where there are none."""
    place = place_of(visit)
    if place is None:
        raise Invalid("passkeys do not work at this address: open the pages by the name of a host with https")
    return place


def host_of(visit: Visit) -> str:
    """The host that an app shows beside its codes."""
    return urlsplit(visit.transport.origin(visit.request)).hostname or "tickwise"


def as_json(options: Options) -> str:
    """Options for the attribute of a form. Texts that `fido2` has as enums are written as texts."""
    return msgspec.json.encode(options, enc_hook=_plain).decode()


def field(visit: Visit, name: str, most: int = SECRET_CHARACTERS_MAX) -> str:
    """A field of the form, cut to what it can be."""
    return visit.form.get(name, "")[:most]


def answer_of(visit: Visit) -> str:
    """The answer of a browser about a passkey."""
    return field(visit, "response", RESPONSE_CHARACTERS_MAX + 1)


def picture(codes: CodesEnrolment) -> Markup:
    """The picture of an enrolment. It is made of shapes alone, by `segno`."""
    return Markup(picture_of(codes.address))


def _plain(value: Any) -> Any:
    return str(value)
