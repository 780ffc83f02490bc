"""Codes of an app (TOTP, RFC 6238): seeds, their picture for a phone, and the check of a code.

Six digits, SHA-1 and steps of 30 s: what every app can do (section 5.2 of the RFC allows one step of delay; clocks of
phones may be ahead as well as behind). The step of a code is kept with its factor, so that a code works once.
"""

from __future__ import annotations

import re
from base64 import b32encode
from typing import Final

from tickwise.ports.clock import Clock

SEED_BYTES: Final = 20
"""As long as the output of SHA-1 (RFC 4226, section 4)."""
STEP_SECONDS: Final = 30
LEEWAY_STEPS: Final = 1
ISSUER: Final = "Tickwise"
_CODE: Final = re.compile(r"[0-9]{6}")
_QUIET_MODULES: Final = 4
"""The border that readers of QR codes need."""


def new_seed(clock: Clock) -> str:
    """A new seed in base32, as apps show and take it."""
    return b32encode(clock.random_bytes(SEED_BYTES)).decode()


def code_of(text: str) -> str | None:
    """The code in a text that a person typed; None: it has another form."""
    found = "".join(text.split())
    return found if found.isascii() and _CODE.fullmatch(found) else None


def matching_step(seed: str, code: str, now: float) -> int | None:
    """The time step to which a code of this seed belongs, at most one from the present; None: it is wrong."""
    import pyotp
    from pyotp.exceptions import OTPVerificationError

    totp = pyotp.TOTP(seed, interval=STEP_SECONDS)
    try:
        return totp.verify_and_get_timecode(code, for_time=now, valid_window=LEEWAY_STEPS)
    except OTPVerificationError:
        return None


def address_of(seed: str, name: str, place: str) -> str:
    """The `otpauth:` address of a seed, for the person of this name at the installation of this host."""
    import pyotp

    return pyotp.TOTP(seed, interval=STEP_SECONDS).provisioning_uri(name=f"{name}@{place}", issuer_name=ISSUER)


def picture_of(address: str) -> str:
    """The address as a QR code in SVG for a page: shapes and attributes, neither style nor script."""
    import segno

    picture = segno.make(address, error="m", micro=False)
    return picture.svg_inline(
        scale=4, border=_QUIET_MODULES, dark="#000", light="#fff", svgclass="qr", lineclass=None, omitsize=True,
        title="QR code for the app",
    )  # fmt: skip
