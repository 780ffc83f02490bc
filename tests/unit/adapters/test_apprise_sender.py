"""The sender through Apprise: a real process, a real receiver, and what that process may not do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.receivers import Receiver, receiver
from tests.unit.adapters.test_http_senders import message
from tickwise.adapters.outgoing.access import PRIVATE, HttpAccess
from tickwise.adapters.senders.apprise_channel import AppriseSender
from tickwise.adapters.senders.apprise_child import NotForServices, guard
from tickwise.adapters.senders.outcomes import DELIVERED, UNTRIED
from tickwise.domain.errors import Invalid
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind
from tickwise.observability.tasks import end_tasks
from tickwise.ports.senders import DeliveryOutcome, DeliveryResult

TOKEN = "tk_verysecrettokenofntfy12345678"


async def send(
    url: str,
    *,
    allow_private: bool = True,
    timeout: float = 60.0,
    namespace: str = "default",
    sender: AppriseSender | None = None,
    failures: int = 0,
) -> DeliveryResult:
    """One try."""
    settings, secrets = channel_fields(NoticeChannelKind.APPRISE, {"url": url})
    assert TOKEN not in str(settings)
    channel = NoticeChannel(
        channel_id=UUID(int=2), namespace=namespace, name="ops", kind=NoticeChannelKind.APPRISE, settings=settings,
        allow_private=allow_private, failures=failures,
    )  # fmt: skip
    return await (sender or AppriseSender()).send(channel, secrets, message(), timeout=timeout)


@pytest.fixture
async def service() -> AsyncIterator[Receiver]:
    """A service on loopback."""
    async with receiver() as at:
        yield at


def ntfy(service: Receiver) -> str:
    """Its address, as one of ntfy."""
    return f"ntfy://{TOKEN}@{service.url.removeprefix('http://')}/alerts"


async def test_a_service_is_told_in_its_own_way(service: Receiver) -> None:
    """Title, text and severity."""
    service.says = [200]
    service.text = "{}"
    assert await send(ntfy(service)) == DeliveryResult(DeliveryOutcome.DELIVERED)
    [got] = service.got
    body = json.loads(got.body)
    assert body["topic"] == "alerts"
    assert body["title"] == "[critical] night <b>& failed"
    assert "exit status 1" in body["message"]
    assert TOKEN in got.headers["Authorization"]


async def test_what_a_service_refuses_is_told_without_its_token(service: Receiver) -> None:
    """And tried again."""
    service.says, service.text = [403, 403, 403, 403], f"no token {TOKEN}"
    result = await send(ntfy(service))
    assert result.delivery is DeliveryOutcome.LATER
    assert "403" in str(result.error)
    assert TOKEN not in str(result.error)


async def test_a_private_address_needs_the_channels_permission(service: Receiver) -> None:
    """It is judged when it is connected to."""
    result = await send(ntfy(service), allow_private=False)
    assert result.delivery is DeliveryOutcome.LATER
    assert service.got == []


async def test_a_service_that_hangs_is_left(service: Receiver) -> None:
    """Its process is ended."""
    service.says = ["hang"]
    result = await send(ntfy(service), timeout=3.0)
    assert result == DeliveryResult(DeliveryOutcome.LATER, "the service did not answer within 3 s")


async def test_services_that_hang_hold_up_no_other_namespace(service: Receiver) -> None:
    """A namespace has half of the turns. To wait for one is no try, and the time of a try begins with its turn."""
    service.says = ["hang"] * 2
    sender = AppriseSender()
    hung = [asyncio.create_task(send(ntfy(service), sender=sender)) for _ in range(3)]
    while len(service.got) < 2:
        service.arrived.clear()
        await service.arrived.wait()
    assert await send(ntfy(service), timeout=0.2, sender=sender) == UNTRIED
    async with receiver() as well:
        well.says, well.text = [200], "{}"
        assert await send(ntfy(well), sender=sender, namespace="shop") == DELIVERED
    assert not [each for each in hung if each.done()]
    assert len(service.got) == 2
    await end_tasks(hung)


async def test_a_service_that_is_known_to_hang_holds_up_none_of_its_namespace(service: Receiver) -> None:
    """Such ones have one turn of their namespace."""
    service.says = ["hang"] * 3
    sender = AppriseSender()
    hung = [asyncio.create_task(send(ntfy(service), sender=sender, failures=1)) for _ in range(3)]
    await service.arrived.wait()
    async with receiver() as well:
        well.says, well.text = [200], "{}"
        assert await send(ntfy(well), sender=sender) == DELIVERED
    assert len(service.got) == 1
    await end_tasks(hung)


async def test_without_apprise_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is an extra."""
    program = tmp_path / "child.py"
    program.write_text(
        "import sys\nsys.modules['apprise'] = None\nfrom tickwise.adapters.senders.apprise_child import main\nmain()\n"
    )
    real = asyncio.create_subprocess_exec

    async def start(*words: str, **options: Any) -> Any:
        return await real(sys.executable, str(program), **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    result = await send("ntfy://x/y")
    assert result.delivery is DeliveryOutcome.LATER
    assert "pip install 'tickwise[apprise]'" in str(result.error)


@pytest.mark.parametrize(
    "url",
    ["syslog://", "dbus://", "json://h/", "mailto://u:p@h", "file:///etc/passwd", "http://h/", "macosx://",
     "no address",
     "fcm://p/k/?keyfile=/etc/shadow", "slack://a/b/c?template=/etc/passwd", "ntfy://t?attach=/etc/passwd",
     "ntfy://t?+attach=x"],
)  # fmt: skip
def test_an_address_that_acts_on_the_scheduler_is_refused(url: str) -> None:
    """When the channel is made."""
    with pytest.raises(Invalid):
        channel_fields(NoticeChannelKind.APPRISE, {"url": url})


@pytest.mark.parametrize(
    ("event", "args"),
    [
        ("subprocess.Popen", ("sh", ["sh"], None, None)),
        ("os.system", ("id",)),
        ("os.posix_spawn", ("sh", ["sh"], {})),
        ("open", ("/etc/passwd", "r", 0)),
        ("open", ("/etc/ssl/../passwd", "r", 0)),
        ("open", (str(Path(sys.prefix) / "x"), "w", 0o101)),
        ("socket.connect", (None, ("127.0.0.1", 80))),
        ("socket.connect", (None, ("::ffff:169.254.169.254", 80, 0, 0))),
        ("socket.connect", (None, ("localhost", 80))),
        ("socket.connect", (None, "/run/docker.sock")),
        ("socket.sendto", (None, ("10.0.0.1", 514))),
    ],
)
def test_the_process_may_not_do_what_no_service_needs(event: str, args: tuple[object, ...]) -> None:
    """Programs, files, sockets of the machine, private addresses: by a hook of the interpreter."""
    with pytest.raises(NotForServices):
        guard(HttpAccess())(event, args)


def test_the_process_may_do_what_services_need() -> None:
    """Public addresses, Python's own files; with the channel's permission private addresses, and no metadata."""
    hook = guard(HttpAccess(networks=PRIVATE))
    hook("socket.connect", (None, ("1.1.1.1", 443)))
    hook("socket.connect", (None, ("10.0.0.1", 443)))
    hook("open", (json.__file__, "r", 0))
    hook("open", (3, "w", 0o101))
    hook("open", ("/dev/null", "w", 0o101))
    with pytest.raises(NotForServices):
        hook("socket.connect", (None, ("169.254.169.254", 80)))
