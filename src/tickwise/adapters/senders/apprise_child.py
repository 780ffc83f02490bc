"""The process of one notice through Apprise: reads a request, sends, writes a reply, ends.

Invariant: once the request is read, a hook of the interpreter sees each connection, program and file before it is
made, started or opened, and refuses those that a service over the network does not need. What it judges is the address
that is connected to, so a name that changes its address meanwhile changes nothing.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final

from tickwise.adapters.outgoing.access import PRIVATE, AddressRefused, HttpAccess
from tickwise.adapters.senders.apprise_channel import child_request
from tickwise.adapters.senders.http_delivery import ADVICE

REQUEST_BYTES: Final = 1 << 20
ERROR_CHARACTERS: Final = 1_000
CONNECTS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
PROGRAMS: Final = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn"}
)
SYSTEM_FILES: Final = ("/etc/ssl/", "/etc/pki/", "/etc/hosts", "/etc/resolv.conf", "/etc/mime.types", "/etc/localtime",
                       "/usr/share/zoneinfo", "/usr/share/ca-certificates", "/usr/lib/ssl/", "/dev/null",
                       "/dev/urandom")  # fmt: skip
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class NotForServices(PermissionError):
    """The refusal of something that a service over the network does not need."""


def guard(access: HttpAccess) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook for `sys.addaudithook`."""
    folders = tuple(
        {os.path.realpath(each) + os.sep for each in (sys.prefix, sys.base_prefix, *sys.path) if os.path.isdir(each)}
    )

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in CONNECTS:
            _check_address(access, args[1])
        elif event in PROGRAMS:
            raise NotForServices("a service is not told by running a program")
        elif event == "open" and not isinstance(args[0], int):
            _check_file(os.fsdecode(args[0]), args[2], folders)

    return hook


def _check_address(access: HttpAccess, address: object) -> None:
    if address is None:
        return  # of a socket that is connected
    if not isinstance(address, tuple) or len(address) < 2:
        raise NotForServices("a service is not told through a socket of this machine")
    try:
        found = ip_address(str(address[0]).partition("%")[0])
    except ValueError:
        raise NotForServices(f"{address[0]} was not looked up before") from None
    try:
        access.check(found, str(found), int(address[1]))
    except AddressRefused as error:
        raise NotForServices(str(error)) from None


def _check_file(path: str, flags: object, folders: tuple[str, ...]) -> None:
    real = os.path.realpath(path)
    if isinstance(flags, int) and flags & WRITES and real != "/dev/null":
        raise NotForServices("a service is not told by writing a file")
    if not real.startswith((*folders, *SYSTEM_FILES)):
        raise NotForServices(f"a service is not told with the file {path}")


class _Heard(logging.Handler):
    """Keeps the warnings of Apprise: they say why it failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.lines) < 10:
            self.lines.append(record.getMessage())


def deliver(request: dict[str, Any]) -> dict[str, str]:
    """Send one notice; the reply."""
    try:
        import apprise
    except ImportError:
        return {"outcome": "missing"}
    heard = _Heard()
    logging.getLogger("apprise").addHandler(heard)
    access = HttpAccess(networks=PRIVATE if request["allow_private"] else (), advice=ADVICE)
    sys.addaudithook(guard(access))
    asset = apprise.AppriseAsset(plugin_paths=[], storage_mode="memory", allow_templates=False, app_id="Tickwise")
    service = apprise.Apprise.instantiate(request["url"], asset=asset)
    if service is None:
        return {"outcome": "refused", "error": f"Apprise cannot read the address: {_said(heard)}"}
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    if sender.notify(body=request["text"], title=request["title"], notify_type=request["type"], body_format="text"):
        return {"outcome": "delivered"}
    return {"outcome": "later", "error": f"the service did not take it: {_said(heard)}"}


def _said(heard: _Heard) -> str:
    return "; ".join(heard.lines)[:ERROR_CHARACTERS] or "no reason was given"


def main() -> None:
    """Read the request from standard input, write the reply to standard output."""
    import msgspec

    reply = os.dup(1)
    os.dup2(2, 1)  # a service that prints must not be taken for the reply
    request = child_request(sys.stdin.buffer.read(REQUEST_BYTES))
    try:
        told = deliver(request)
    except Exception as error:  # noqa: BLE001  # code of a hundred services: each error of it is a failed try
        told = {"outcome": "later", "error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]}
    os.write(reply, msgspec.json.encode(told))
    os._exit(0)


if __name__ == "__main__":
    main()
