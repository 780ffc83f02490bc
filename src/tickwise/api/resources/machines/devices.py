"""`/auth/device`: a terminal asks to be signed in (RFC 8628). It polls `/auth/token` then."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, Secret, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.wire import API
from tickwise.control.people.devices import DeviceBody

PAGE: Final = "/device"
"""The page on which a person approves."""

_device: Final = msgspec.json.Decoder(DeviceBody)


class DeviceView(msgspec.Struct, kw_only=True):
    """The codes of a request (RFC 8628, section 3.2)."""

    device_code: Secret
    """The secret of the terminal, for `POST /auth/token`."""
    user_code: str
    """The terminal shows it, and the person compares it."""
    verification_uri: str
    """The page for the person."""
    verification_uri_complete: str
    """The page with the code filled in. The person confirms it there."""
    expires_in: int
    """Seconds."""
    interval: int
    """Seconds between two polls."""


async def device_begin(call: Call) -> Reply:
    """Keep a request."""
    begun = await call.control.devices.begin(decode(_device, call.body, field_names(DeviceBody)), call.origin)
    page = f"{call.base_url}{PAGE}"
    view = DeviceView(
        device_code=begun.device_code,
        user_code=begun.user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?{urlencode({'user_code': begun.user_code})}",
        expires_in=int(begun.seconds),
        interval=int(begun.interval_seconds),
    )
    return answer(200, view, headers=[(b"cache-control", b"no-store")])


DEVICES: Final = (
    Endpoint(
        method="POST", path=f"{API}/auth/device", name="startDeviceSignIn", tag="auth",
        summary="Begin the sign-in of a terminal, which a person approves in a browser.",
        description="Show `user_code` and `verification_uri`, and ask `POST /auth/token` every `interval` seconds with "
        "`grant_type` `urn:ietf:params:oauth:grant-type:device_code` and the `device_code`: `authorization_pending` "
        "until the person has decided.",
        handler=device_begin, body=DeviceBody, answers=(DeviceView,), refuses=(429, 503), secret=True,
        answer_headers=("Cache-Control",),
    ),
)  # fmt: skip
