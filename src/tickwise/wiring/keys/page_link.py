"""The link that `up` prints on a terminal: it opens the pages of a fresh installation without a password.

local key ──► link, good once and for minutes ──► browser of this machine, signed in as that key
"""

from __future__ import annotations

import sys
from typing import Final
from urllib.parse import urlsplit

from tickwise.config import Settings
from tickwise.control.control import Control
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.errors import Forbidden, Unavailable
from tickwise.domain.networks import is_loopback

WEB: Final = "web"
"""The part of `api_serve` that is the pages."""
LOCAL_ADDRESS: Final = "127.0.0.1"


async def link_to_pages(settings: Settings, control: Control, address: str, key: str) -> str | None:
    """The address that opens the pages served at `address`, signed in with the secret `key`. None: there are no pages,
    a link is no use at an address that is none of loopback, or standard error is no terminal, and would keep it."""
    if WEB not in settings.api_serve or not is_loopback(urlsplit(address).hostname or "") or not sys.stderr.isatty():
        return None
    try:
        found = await control.credentials.find(secret_digest(key.encode()))
        if found is None:
            return None
        link = await control.browsers.make_link(found.caller.principal().with_origin(LOCAL_ADDRESS, "start"))
    except (Forbidden, Unavailable):
        return None  # `tickwise open` says why
    return f"{address}/open/{link.secret}"
