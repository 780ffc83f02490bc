"""Where http tasks may call: never inside, in no spelling, by no redirect and by no name that changes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.security.probes import probe
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.outgoing.access import AddressRefused, HttpAccess
from tickwise.adapters.outgoing.exchange import Request
from tickwise.adapters.runner.http.composing import redirected
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.ports.runner import Ending, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

Handler = Callable[[web.Request], web.Response]


class Inside:
    """Servers that nobody should reach, and what reached them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._servers: list[web.AppRunner] = []

    async def serve(self, answers: Handler | None = None, host: str | None = None) -> int:
        """A server on every address of this machine, or on one; its port."""

        async def answer(request: web.Request) -> web.Response:
            self.requests.append((request.method, request.path, dict(request.headers), await request.read()))
            return web.json_response({"secret": 1}) if answers is None else answers(request)

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await server.setup()
        sock = socket.create_server((host or "", 0), family=socket.AF_INET) if host else _every_address()
        await web.SockSite(server, sock).start()
        self._servers.append(server)
        return int(sock.getsockname()[1])

    async def close(self) -> None:
        for server in self._servers:
            await server.cleanup()

    @asynccontextmanager
    async def runner(self, *allow: str, resolver: AbstractResolver | None = None) -> AsyncIterator[Call]:
        """An http runner as an executor has one."""
        settings = RunnerSettings(
            blobs=open_blobs("memory://"), clock=SystemClock(), work_root=self.folder, http_allow=allow
        )
        runner, listener = HttpRunner(settings, resolver=resolver), Listener()
        await runner.start(listener, time.time)
        try:
            yield Call(runner, listener)
        finally:
            await runner.close()


def _every_address() -> socket.socket:
    return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)


class Call:
    """A runner that takes one task after the other."""

    def __init__(self, runner: HttpRunner, listener: Listener) -> None:
        self._runner = runner
        self._listener = listener

    async def run(self, url: str, payload: Any = None, /, **task: Any) -> Ending:
        """The end of one task; as its kind refuses it, if it does that already."""
        try:
            checked = self._runner.kinds[0].check({"kind": "http", "url": url, **task})
        except Invalid as refused:
            return Ending(Verdict.INVALID, 0.0, 0.0, "invalid", refused.detail)
        given = assignment(checked, payload, token=77)
        self._runner.launch([given])
        return await self._listener.ending_of(given)


@pytest_asyncio.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Inside]:
    made = Inside(tmp_path)
    yield made
    await made.close()


SPELLINGS = (Path(__file__).parent / "spellings.txt").read_text(encoding="utf-8").split()


@probe(7, stopped_by="one reading of the host; an address that is not public is refused")
@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_leads_inside(inside: Inside, host: str) -> None:
    """Loopback, private, link-local, shared, metadata, multicast and reserved addresses: decimal, octal, hexadecimal,
    short, mapped, translated, tunnelled, escaped, in other scripts, with zones and with user names."""
    port = await inside.serve()
    async with inside.runner() as call:
        ending = await call.run(f"http://{host}:{port}/")
    assert [] == inside.requests
    if (ending.verdict, ending.reason) == (Verdict.FAILED, "http_error"):
        assert host.endswith("."), ending  # not every resolver knows `localhost` in its absolute form
    else:
        assert Verdict.INVALID is ending.verdict, ending
        assert ending.reason in ("address_refused", "invalid"), ending


@probe(7, stopped_by="a refusal that names the setting and the entry")
async def test_a_refusal_says_which_line_to_add(inside: Inside) -> None:
    """A service of one's own on loopback, by address and by name, before and after its entry is added."""
    port = await inside.serve()
    for host in ("127.0.0.1", "localhost", "[::1]"):
        async with inside.runner() as call:
            refused = await call.run(f"http://{host}:{port}/")
        entry = f"{host}:{port}"
        assert "address_refused" == refused.reason
        assert f"TICKWISE_HTTP_ALLOW={entry}" in str(refused.error), refused.error
        async with inside.runner(entry) as call:
            assert Verdict.OK is (await call.run(f"http://{host}:{port}/")).verdict
            other = await call.run(f"http://{host}:{port + 1 if port < 65_535 else port - 1}/")
        assert "address_refused" == other.reason


@probe(7, stopped_by="an entry allows what it names and nothing beside it")
@pytest.mark.parametrize(
    ("entry", "host", "verdict"),
    [
        ("127.0.0.0/8", "127.0.0.1", Verdict.OK),
        ("127.0.0.0/8", "localhost", Verdict.INVALID),  # it resolves to ::1, too
        ("127.0.0.0/8", "[::ffff:127.0.0.1]", Verdict.OK),
        ("127.0.0.2/32", "127.0.0.1", Verdict.INVALID),
        ("::1", "[::1]", Verdict.OK),
        ("[::1]", "127.0.0.1", Verdict.INVALID),
        ("localhost", "LOCALHOST", Verdict.OK),
        ("localhost", "127.0.0.1", Verdict.INVALID),
        ("127.0.0.1", "127.1", Verdict.INVALID),
    ],
)
async def test_an_entry_allows_what_it_names(inside: Inside, entry: str, host: str, verdict: Verdict) -> None:
    """Neighbours of an allowed address, in several spellings."""
    port = await inside.serve()
    if entry == "127.0.0.0/8" and host == "localhost" and not _has_v6_localhost():
        verdict = Verdict.OK
    async with inside.runner(entry) as call:
        assert verdict is (await call.run(f"http://{host}:{port}/")).verdict


def _has_v6_localhost() -> bool:
    found = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return any(family is socket.AF_INET6 for family, *_ in found)


@probe(7, stopped_by="every special address inside of an address must be allowed itself")
@pytest.mark.parametrize(
    ("entries", "address"),
    [
        pytest.param(["10.0.0.0/8"], "2001:0:a00:1::5601:5601", id="Teredo: an allowed server, metadata as client"),
        pytest.param(["10.0.0.0/8"], "2002:a00:1::5efe:a9fe:a9fe", id="6to4 allowed, ISATAP to metadata"),
        pytest.param(["10.0.0.0/8"], "fd00::5efe:a00:1", id="an inner address allowed, the network around it not"),
        pytest.param(["fd00::/8"], "fd00::5efe:a9fe:a9fe", id="the network allowed, the inner address not"),
        pytest.param(["2002::/16"], "2002:a9fe:a9fe::1", id="6to4 allowed as such, the inner address not"),
        pytest.param(["64:ff9b::/96"], "64:ff9b::a9fe:a9fe", id="NAT64 allowed as such, the inner address not"),
    ],
)
def test_an_allowed_address_lets_no_other_one_through(entries: list[str], address: str) -> None:
    """IPv6 addresses that hold an allowed address beside one that is not."""
    with pytest.raises(AddressRefused, match="is not public"):
        HttpAccess.of(entries).vet(f"http://[{address}]/")


@probe(7, stopped_by="nothing: all that is special about these addresses is allowed")
@pytest.mark.parametrize(
    ("entries", "address"),
    [
        (["10.0.0.0/8"], "::ffff:10.0.0.1"),
        (["10.0.0.0/8"], "64:ff9b::a00:1"),
        (["10.0.0.0/8"], "2002:a00:1::1"),
        (["10.0.0.0/8", "169.254.169.254"], "2002:a00:1::5efe:a9fe:a9fe"),
        (["fd00::/8", "10.0.0.0/8"], "fd00::5efe:a00:1"),
        (["[2002:a00:1::1]:80"], "2002:a00:1::1"),
        (["0.0.0.0/0", "::/0"], "2001:0:a00:1::5601:5601"),
    ],
)
def test_an_allowed_address_is_reached_in_other_words(entries: list[str], address: str) -> None:
    """IPv6 addresses that are special only by what the entries allow."""
    assert str(HttpAccess.of(entries).vet(f"http://[{address}]/")).startswith("http://")


class ChangingNames(AbstractResolver):
    """A name server of an attacker: each answer may differ from the one before."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[ResolveResult]:
        addresses = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [
            ResolveResult(
                hostname=host, host=address, port=port, proto=0, flags=0,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            )
            for address in addresses
        ]  # fmt: skip

    async def close(self) -> None: ...


@probe(7, stopped_by="the address that was judged is the one that is connected to")
async def test_a_name_that_changes_after_it_was_judged_leads_nowhere_else(inside: Inside) -> None:
    """DNS rebinding: the first answer is allowed, every later one is loopback."""
    port = await inside.serve(host="127.0.0.1")
    allowed = await _on(inside, "127.0.0.2", port)
    names = ChangingNames(["127.0.0.2"], ["127.0.0.1"])
    async with inside.runner("127.0.0.2", resolver=names) as call:
        first = await call.run(f"http://rebind.example:{port}/")
        assert (Verdict.OK, 1) == (first.verdict, names.asked)
        assert {"status": 200, "body": {"allowed": True}} == json.loads(first.result or "")
    async with inside.runner("127.0.0.2", resolver=names) as call:
        assert "address_refused" == (await call.run(f"http://rebind.example:{port}/")).reason
    assert [] == inside.requests
    assert ["rebind.example"] == [host.partition(":")[0] for host in allowed]


async def _on(inside: Inside, host: str, port: int) -> list[str]:
    """A server of an allowed address on the same port; the `Host` of each request there."""
    hosts: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        hosts.append(request.host)
        return web.json_response({"allowed": True})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    server = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, host, port).start()
    inside._servers.append(server)
    return hosts


@probe(7, stopped_by="one address that is not public refuses the whole name")
@pytest.mark.parametrize("inner", ["127.0.0.1", "::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "169.254.169.254"])
async def test_a_name_with_one_address_inside_is_refused(inside: Inside, inner: str) -> None:
    """A name with a public address and one inside, so that a failed connection would lead to the other."""
    async with inside.runner(resolver=ChangingNames(["93.184.215.14", inner])) as call:
        assert "address_refused" == (await call.run("http://both.example/")).reason


@probe(7, stopped_by="each hop is judged")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:{port}/", "//127.1:{port}/", "http://[::1]:{port}/", "file:///etc/passwd"]
)
async def test_a_redirect_leads_inside_for_nobody(inside: Inside, status: int, target: str) -> None:
    """A server that is allowed redirects to one that is not."""
    port = await inside.serve()
    outside = Inside(inside.folder)
    to = target.format(port=port)
    first = await outside.serve(lambda _: web.Response(status=status, headers={"Location": to}), host="127.0.0.2")
    async with inside.runner("127.0.0.2") as call:
        ending = await call.run(f"http://127.0.0.2:{first}/", method="POST", body="x")
    await outside.close()
    assert Verdict.INVALID is ending.verdict
    assert ([], 1) == (inside.requests, len(outside.requests))


@probe(7, stopped_by="another origin gets no headers, no context and no body")
@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_redirect_to_another_origin_takes_nothing_along(inside: Inside, status: int, method: str) -> None:
    """A redirect to another port, and from there back to the first origin."""
    second: int

    def away(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"http://127.0.0.1:{second}/back"})

    def home(request: web.Request) -> web.Response:
        if request.path == "/back":
            return web.Response(status=status, headers={"Location": f"http://127.0.0.1:{first}/end"})
        return web.Response()

    first = await inside.serve(lambda request: web.Response() if request.path == "/end" else away(request))
    second = await inside.serve(home)
    async with inside.runner("127.0.0.1") as call:
        ending = await call.run(
            f"http://127.0.0.1:{first}/", {"secret": 1}, method="POST", headers={"X-Key": "secret", "Cookie": "a=b"}
        )
    assert Verdict.OK is ending.verdict
    assert ["POST", method, method] == [request[0] for request in inside.requests]
    _, _, headers, body = inside.requests[0]
    assert ("secret", "77", b'{"secret": 1}') == (headers["X-Key"], headers["Tickwise-Fencing-Token"], body)
    for _, _, headers, body in inside.requests[1:]:
        assert b"" == body
        assert set() == {name.lower() for name in headers} - {
            "host", "accept", "accept-encoding", "user-agent", "content-length", "content-type",
        }  # fmt: skip
        assert "application/json" != headers.get("Content-Type")


@probe(7, stopped_by="RFC 9110 §15.4: what is sent stays with its origin, and only there")
@pytest.mark.parametrize(
    ("status", "method", "body"),
    [(301, "GET", b""), (302, "GET", b""), (303, "GET", b""), (307, "POST", b"1"), (308, "POST", b"1")],
)
async def test_a_redirect_within_an_origin_keeps_the_headers(
    inside: Inside, status: int, method: str, body: bytes
) -> None:
    """A redirect to another path, where 301 and 302 make a POST a GET, and 307 and 308 do not."""

    def answers(request: web.Request) -> web.Response:
        return web.Response() if request.path == "/b" else web.Response(status=status, headers={"Location": "/b"})

    port = await inside.serve(answers)
    async with inside.runner("127.0.0.1") as call:
        ending = await call.run(f"http://127.0.0.1:{port}/a", 1, method="POST", headers={"X-Key": "mine"})
    assert Verdict.OK is ending.verdict
    said, _, headers, sent = inside.requests[1]
    assert (method, body, "mine", "77") == (said, sent, headers["X-Key"], headers["Tickwise-Fencing-Token"])


@probe(7, stopped_by="no proxy of the environment is asked")
async def test_a_proxy_of_the_environment_is_ignored(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """`HTTP_PROXY` in the executor's environment, which would connect to addresses that nobody has judged."""
    proxy = await inside.serve()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
    hosts = await _on(inside, "127.0.0.2", 0)
    async with inside.runner("127.0.0.2") as call:
        port = inside._servers[-1].addresses[0][1]
        assert Verdict.OK is (await call.run(f"http://127.0.0.2:{port}/")).verdict
    assert ([], [f"127.0.0.2:{port}"]) == (inside.requests, hosts)


@probe(7, stopped_by="nothing: public addresses are served, also through NAT64 and 6to4")
@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.0.1", "11.0.0.0",
     "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1", "223.255.255.255"],
)  # fmt: skip
async def test_public_addresses_are_not_refused(address: str) -> None:
    """Public addresses beside the borders of those that are refused."""
    host = f"[{address}]" if ":" in address else address
    assert str(HttpAccess().vet(f"http://{host}/")).startswith("http://")


@probe(7, stopped_by="a setting that cannot be read refuses the start")
@pytest.mark.parametrize(
    "entry", ["10.0.0.1/8", "http://a", "a/b", "user@a", "a:0", "a:99999", "[::1", "", "10.0.0.0/33"]
)
async def test_an_unreadable_entry_is_named(entry: str) -> None:
    """An entry that looks as if it allowed something."""
    with pytest.raises(Misconfigured, match="http_allow holds"):
        HttpAccess.of(["localhost", entry])


@probe(7, stopped_by="a redirect from https to http is refused")
def test_a_redirect_gives_up_no_encryption() -> None:
    """A redirect that leads from https to http, of the same host and of another one."""
    access = HttpAccess()
    request = Request("GET", access.vet("https://example.com/"), {}, None)
    for target in ("http://example.com/", "//example.com/", "http://example.org/"):
        if target.startswith("//"):
            assert "https" == redirected(request, 302, target, access).url.scheme
        else:
            with pytest.raises(AddressRefused, match="from https to http"):
                redirected(request, 302, target, access)
