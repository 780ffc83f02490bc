"""A sandbox whose job names destinations: what its programs reach, and what they do not, with real sockets, the real
namespace and the real bubblewrap."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.support.network_lab import NetworkLab
from tickwise.adapters.runner.process.sandbox.network import run_network

pytestmark = pytest.mark.asyncio
NAME = "service.test"
LOOPBACK = {NAME: ["127.0.0.1"]}
TRIES = """
import errno, json, socket, struct
found = {}
def tried(name, work):
    try:
        found[name] = work() or "reached"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, "") or type(error).__name__
    print(json.dumps(found), flush=True) if name == "last" else None
def connect(host, port, family=socket.AF_INET):
    with socket.socket(family) as one:
        one.settimeout(60)
        one.connect((host, port))
        one.sendall(b"hello")
        return one.recv(100).decode() or "ended"
"""
"""The beginning of a script that tries things, and prints what came of each as JSON."""


class Service:
    """A server outside: it greets what connects, and says what it was sent; requests of HTTP it answers."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.host = "127.0.0.1"
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1") -> Service:
        """Listen at a free port."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        self.host, self.port = self._server.sockets[0].getsockname()[:2]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            await self._answer(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.read(1 << 16)
        if first.startswith((b"GET ", b"POST ")):
            while b"\r\n\r\n" not in first:
                first += await reader.read(1 << 16)
            self.heads.append(first)
            head, _, body = first.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            await reader.readexactly(int(length[1]) - len(body) if length else 0)
            if b"/elsewhere" in first:
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://other.test:1/\r\nContent-Length: 0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwell")
            return
        while first:
            writer.write(b"you said " + first)
            await writer.drain()
            first = await reader.read(1 << 16)
        writer.write(b"goodbye")

    async def stop(self) -> None:
        """End it and its connections."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Service]:
    """A server on loopback."""
    found = await Service().start()
    yield found
    await found.stop()


@pytest_asyncio.fixture
async def lab(tmp_path: Path) -> AsyncIterator[NetworkLab]:
    """A sandbox."""
    found = NetworkLab(tmp_path)
    yield found
    await found.close()


def opened(service: Service, name: str = NAME) -> dict[str, Any]:
    """The name leads to the server, and the installation allows that."""
    return {"names": {name: ["127.0.0.1"]}, "allow": [f"{name}:{service.port}"]}


# ------------------------------------------------------------------------------------------------ reached


async def test_a_program_without_a_proxy_reaches_an_allowed_name(lab: NetworkLab, service: Service) -> None:
    """It asks for the name and connects, as everywhere; what it carried is counted."""
    script = f"{TRIES}\ntried('last', lambda: connect('{NAME}', {service.port}))"
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    assert json.loads(tried.output) == {"last": "you said hello"}
    assert lab.network is not None
    assert (lab.network.sent_bytes, lab.network.received_bytes >= len("you said hello")) == (5, True)
    assert lab.lines == []


@pytest.mark.parametrize(
    "options", [[], ["--noproxy", "*"], ["--proxytunnel"], ["--proxy", "socks5h://127.0.0.1:1080"]],
    ids=["http-proxy", "direct", "connect", "socks"],
)  # fmt: skip
async def test_curl_reaches_an_allowed_name(lab: NetworkLab, service: Service, options: list[str]) -> None:
    """By each way that it knows; a request through the proxy has no header for proxies."""
    command = ["curl", "-sS", "--max-time", "10", *options, f"http://{NAME}:{service.port}/a?b=c"]
    tried = await lab.run(command, [f"{NAME}:{service.port}"], **opened(service))
    assert (tried.output, tried.status) == ("well", 0)
    (head,) = service.heads
    assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert f"host: {NAME}:{service.port}".encode() in head.lower()
    assert b"proxy" not in head.lower()


async def test_urllib_sends_a_body_through_the_proxy(lab: NetworkLab, service: Service) -> None:
    """The variables name the proxy, and urllib obeys them."""
    script = f"""
    import urllib.request
    body = b"x" * 200_000
    print(urllib.request.urlopen("http://{NAME}:{service.port}/", body, timeout=60).read().decode())
    """
    tried = await lab.python(script, [f"{NAME}:*"], **opened(service))
    assert tried.output == "well\n"
    assert lab.network is not None
    assert lab.network.sent_bytes > 200_000


async def test_a_wildcard_is_the_names_below_it(lab: NetworkLab, service: Service) -> None:
    """Not the name itself, and none that only looks like it."""
    script = f"""{TRIES}
for name in ("a.service.test", "a.b.service.test", "service.test", "evilservice.test", "a.service.test.other"):
    tried(name, lambda: connect(name, {service.port}))
tried("last", lambda: "done")
"""
    tried = await lab.python(
        script, [f"*.{NAME}:{service.port}"],
        names={each: ["127.0.0.1"] for each in ("a.service.test", "a.b.service.test", "service.test")},
        allow=["127.0.0.1"],
    )  # fmt: skip
    found = json.loads(tried.output)
    assert {name for name, said in found.items() if said == "you said hello"} == {"a.service.test", "a.b.service.test"}
    assert "blocked the name service.test; allow it with --allow-network service.test:PORT" in lab.lines
    assert lab.names.asked == ["a.service.test", "a.b.service.test"]


async def test_an_address_of_ipv6_is_reached(lab: NetworkLab) -> None:
    """In each spelling of it, and on no other port."""
    host = machine_address("AF_INET6")
    service = await Service().start(host)
    script = f"""{TRIES}
import ipaddress
long = ipaddress.ip_address("{host}").exploded
tried("short", lambda: connect("{host}", {service.port}, socket.AF_INET6))
tried("long", lambda: connect(long, {service.port}, socket.AF_INET6))
tried("port", lambda: connect("{host}", {service.port} + 1, socket.AF_INET6))
tried("last", lambda: "done")
"""
    try:
        tried = await lab.python(script, [f"[{host}]:{service.port}"], allow=[host])
    finally:
        await service.stop()
    expected = {"short": "you said hello", "long": "you said hello", "port": "ECONNREFUSED", "last": "done"}
    assert json.loads(tried.output) == expected


async def test_an_address_is_reached_as_it_is_written(lab: NetworkLab) -> None:
    """Also by a program that knows no proxy, and in the spelling that maps it into IPv6."""
    host = machine_address()
    service = await Service().start(host)
    script = f"""{TRIES}
def socks(kind, packed):
    with socket.create_connection(("127.0.0.1", 1080), 5) as one:
        one.sendall(b"\\x05\\x01\\x00")
        one.recv(2)
        one.sendall(b"\\x05\\x01\\x00" + kind + packed + struct.pack(">H", {service.port}))
        return str(one.recv(10)[1])
four = socket.inet_aton("{host}")
tried("direct", lambda: connect("{host}", {service.port}))
tried("four", lambda: socks(b"\\x01", four))
tried("mapped", lambda: socks(b"\\x04", bytes(10) + b"\\xff\\xff" + four))
tried("last", lambda: "done")
"""
    try:
        tried = await lab.python(script, [f"{host}:{service.port}"], allow=[host])
    finally:
        await service.stop()
    expected = {"direct": "you said hello", "four": "0", "mapped": "0", "last": "done"}
    assert json.loads(tried.output) == expected


def machine_address(family: str = "AF_INET") -> str:
    """An address of this machine that is neither loopback nor of one link alone."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family.name == family and not one.address.startswith(("127.", "::1", "fe80:")):
                return str(one.address)
    pytest.skip("this machine has loopback alone")


# ------------------------------------------------------------------------------------------------ refused


async def test_nothing_else_is_reached(lab: NetworkLab, service: Service) -> None:
    """Other hosts, other ports, addresses, UDP, raw sockets, the executor's loopback: each at once."""
    script = f"""{TRIES}
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("192.0.2.1", 9))
tried("another name", lambda: connect("other.test", {service.port}))
tried("another port", lambda: connect("{NAME}", {service.port} + 1))
tried("an address", lambda: connect("93.184.216.34", {service.port}))
tried("metadata", lambda: connect("169.254.169.254", 80))
tried("loopback of the executor", lambda: connect("127.0.0.1", {service.port}))
tried("an address of IPv6", lambda: connect("2001:4860:4860::8888", {service.port}, socket.AF_INET6))
tried("mapped", lambda: connect("::ffff:127.0.0.1", {service.port}, socket.AF_INET6))
tried("udp", datagram)
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close())
tried("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
tried("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close())
tried("low port of its own", lambda: socket.socket().bind(("127.0.0.1", 80)))
tried("last", lambda: "done")
"""
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    found = json.loads(tried.output)
    assert found == {
        "another name": "gaierror",
        "another port": "ECONNREFUSED",
        "an address": "ENETUNREACH",
        "metadata": "ENETUNREACH",
        "loopback of the executor": "ECONNREFUSED",
        "an address of IPv6": found["an address of IPv6"],
        "mapped": "ECONNREFUSED",
        "udp": "ENETUNREACH",
        "raw": "EPERM",
        "packets": found["packets"],
        "vsock": found["vsock"],
        "low port of its own": "EACCES",
        "last": "done",
    }
    assert found["an address of IPv6"] in ("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT")
    assert found["packets"] in ("EPERM", "EAFNOSUPPORT")
    assert found["vsock"] in ("EPERM", "EAFNOSUPPORT")
    assert service.connections == 0
    assert "blocked the name other.test; allow it with --allow-network other.test:PORT" in lab.lines


PROXY_TARGETS = (
    "other.test:443", "127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "[::ffff:127.0.0.1]:{port}",
    "127.1:{port}", "2130706433:{port}", "0x7f000001:{port}", "0177.0.0.1:{port}", "0.0.0.0:{port}",
    "169.254.169.254:80", "[fd00:ec2::254]:80", "[64:ff9b::7f00:1]:{port}", "[::127.0.0.1]:{port}",
    "[fe80::1%25lo]:{port}", "service.test:{other}", "service.test.:{other}", "service.test%00.other:{port}",
    "service.test@127.0.0.1:{port}", "xservice.test:{port}", "service.test.other:{port}", "SERVICE.TEST:{other}",
)  # fmt: skip


async def test_the_proxy_is_asked_in_every_spelling(lab: NetworkLab, service: Service) -> None:
    """CONNECT and SOCKS5 have one reading of a host, and what is not in the list is not connected to."""
    targets = [each.format(port=service.port, other=service.port + 1) for each in PROXY_TARGETS]
    script = f"""
import json, socket, struct
def ask(first, then=b""):
    with socket.create_connection(("127.0.0.1", 1080), 5) as one:
        one.sendall(first)
        if then:
            one.recv(2)
            one.sendall(then)
        return one.recv(200)
found = {{}}
for target in {targets!r}:
    host, _, port = target.rpartition(":")
    said = ask(f"CONNECT {{target}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    name = host.strip("[]").encode()
    then = b"\\x05\\x01\\x00\\x03" + bytes([len(name)]) + name + struct.pack(">H", int(port))
    found[target] = [said.split()[1].decode(), ask(b"\\x05\\x01\\x00", then)[1]]
good = "{NAME.upper()}.:{service.port}"
found[good] = [ask(f"CONNECT {{good}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode()).split()[1].decode(), 0]
print(json.dumps(found))
"""
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    found = json.loads(tried.output)
    assert found.pop(f"{NAME.upper()}.:{service.port}")[0] == "200"
    assert {target: said for target, said in found.items() if said[0] not in ("403", "400") or said[1] != 2} == {}
    assert service.connections == 1
    assert f"blocked 127.0.0.1:{service.port}; allow it with --allow-network 127.0.0.1:{service.port}" in lab.lines
    assert len(lab.lines) == len(set(lab.lines))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1", "loopback"), ("10.1.2.3", "a private network"), ("169.254.169.254", "metadata of clouds"),
        ("fd00:ec2::254", "metadata of AWS"), ("::ffff:10.0.0.1", "a private network"), ("fe80::1", "link-local"),
        ("64:ff9b::a9fe:a9fe", "metadata of clouds"), ("100.64.0.1", "a provider's shared network"),
    ],
)  # fmt: skip
async def test_a_name_that_leads_inside_is_refused(lab: NetworkLab, service: Service, address: str, said: str) -> None:
    """One private address among public ones refuses the name, also if it changes its mind between two look-ups."""
    script = f"{TRIES}\ntried('last', lambda: connect('{NAME}', {service.port}))"
    names = {NAME: ["93.184.216.34", address]}
    tried = await lab.python(script, [f"{NAME}:{service.port}"], names=names)
    assert json.loads(tried.output)["last"] in ("ECONNRESET", "EPIPE")
    (line,) = lab.lines
    assert line.startswith(f"refused {NAME}:{service.port}: ")
    assert said in line
    assert service.connections == 0


async def test_a_name_that_the_installation_allows_opens_no_metadata(lab: NetworkLab) -> None:
    """Also where `http_allow` names the host, or a network around the address."""
    script = f"{TRIES}\ntried('last', lambda: connect('{NAME}', 80))"
    for address in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254"):
        further = {"names": {NAME: [address]}, "allow": [NAME, "169.254.0.0/16", "fc00::/7"]}
        tried = await lab.python(script, [f"{NAME}:80"], **further)
        assert json.loads(tried.output)["last"] in ("ECONNRESET", "EPIPE")
        assert "metadata" in lab.lines[0]


async def test_a_redirect_leads_nowhere_else(lab: NetworkLab, service: Service) -> None:
    """The program follows it, and the proxy refuses the new host."""
    command = ["curl", "-sSL", "--max-time", "10", f"http://{NAME}:{service.port}/elsewhere"]
    tried = await lab.run(command, [f"{NAME}:{service.port}"], **opened(service))
    expected = "network: blocked other.test:1; allow it with --allow-network other.test:1\n"
    assert tried.output == expected
    assert lab.lines == [expected.removeprefix("network: ").strip()]


async def test_a_query_carries_nothing_out(lab: NetworkLab) -> None:
    """No name is looked up outside for a question: of an allowed wildcard only when a connection is made."""
    script = """
    import socket, struct
    def query(name, kind, tcp=False):
        labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split(".")) + b"\\0"
        wire = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + struct.pack(">HH", kind, 1)
        with socket.socket(type=socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as one:
            one.settimeout(60)
            one.connect(("127.0.0.1", 53))
            one.sendall(struct.pack(">H", len(wire)) + wire if tcp else wire)
            answer = one.recv(600)[2 * tcp:]
        return answer[3] & 15, struct.unpack_from(">H", answer, 6)[0]
    secret = "x" * 60 + ".evil.test"
    for tcp in (False, True):
        print([query(secret, kind, tcp) for kind in (1, 28, 16, 15, 255, 252)])
        print([query("data.service.test", kind, tcp) for kind in (1, 28, 16)])
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.connect(("127.0.0.1", 53))
        for junk in (b"", b"x", bytes(11), bytes(12), b"\\xff" * 500, b"\\xc0\\x0c" * 100):
            one.send(junk)
    print(query("data.service.test", 1))
    """
    tried = await lab.python(script, ["*.service.test:443"])
    refused, known = [(3, 0)] * 6, [(0, 1), (0, 0), (0, 0)]
    assert tried.output.splitlines() == [str(refused), str(known), str(refused), str(known), str((0, 1))]
    assert lab.names.asked == []
    assert [line for line in lab.lines if "evil" in line] == lab.lines


# ------------------------------------------------------------------------------------------------ bad days


async def test_nothing_begins_if_the_proxy_ends_before_its_word(lab: NetworkLab) -> None:
    """Its program says why, and that nothing was started."""
    tried = await lab.run(["echo", "begun"], [f"{NAME}:443"], says_go=False)
    expected = "network: nothing was started, for the network of the task cannot be made: the proxy is gone\n"
    assert (tried.status, tried.output) == (125, expected)


async def test_half_an_end_is_passed_on(lab: NetworkLab, service: Service) -> None:
    """A program that ends its own side still reads the answer."""
    script = f"""
    import socket
    with socket.create_connection(("{NAME}", {service.port}), 60) as one:
        one.sendall(b"hello")
        one.shutdown(socket.SHUT_WR)
        print(one.makefile().read())
    """
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    assert tried.output == "you said hellogoodbye\n"


async def test_slow_requests_end_and_do_not_hinder_others(
    lab: NetworkLab, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that say nothing or little are ended, and hold no more than their share of places."""
    monkeypatch.setattr(run_network, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(run_network, "CONNECTIONS_MAX", 8)
    script = f"""
    import socket
    def ended(one):
        try:
            return one.recv(1) == b""
        except ConnectionResetError:
            return True
    def refused():
        try:
            with socket.create_connection(("127.0.0.1", 1080), 5) as more:
                return ended(more)
        except ConnectionResetError:  # it may be closed before this side has seen it open
            return True
    slow = [socket.create_connection(("127.0.0.1", 1080), 5) for _ in range(7)]
    for one in slow:
        one.send(b"CONN")
    with socket.create_connection(("{NAME}", {service.port}), 60) as one:
        one.sendall(b"hello")
        print(one.recv(100).decode())
        print("refused" if refused() else "served")
        print([ended(each) for each in slow])
        one.sendall(b"again")
        print(one.recv(100).decode())
    """
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    assert tried.output.splitlines() == ["you said hello", "refused", str([True] * 7), "you said again"]
    assert lab.lines == ["refused a connection: the run has 8 already"]


async def test_what_is_no_request_is_refused(lab: NetworkLab, service: Service) -> None:
    """Very long names and heads, other commands of SOCKS, requests that no proxy is for."""
    script = f"""
    import socket
    def ask(*pieces):
        with socket.create_connection(("127.0.0.1", 1080), 5) as one:
            try:
                for piece in pieces:
                    one.sendall(piece)
                    said = one.recv(200)
                return said.split()[1].decode() if said[:1] == b"H" else list(said[:2])
            except OSError:
                return "broken off"
    print(ask(b"CONNECT " + b"a" * 300 + b":443 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
    print(ask(b"CONNECT " + b"a" * 60_000 + b":443 HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n") in ("400", "broken off"))
    print(ask(b"GET / HTTP/1.1\\r\\nHost: {NAME}\\r\\n\\r\\n"))
    print(ask(b"GET ftp://{NAME}/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
    print(ask(b"GET https://{NAME}:{service.port}/ HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"), ask(b"junk\\r\\n\\r\\n"))
    print(ask(b"\\x05\\x01\\x02"), ask(b"\\x04\\x01"), ask(b"\\x05\\x01\\x00", b"\\x05\\x03\\x00\\x01" + bytes(6)))
    print(ask(b"\\x05\\x01\\x00", b"\\x05\\x02\\x00\\x01" + bytes(6)))
    print(ask(b"\\x05\\x01\\x00", b"\\x05\\x01\\x00\\x09" + bytes(6)))
    """
    tried = await lab.python(script, [f"{NAME}:{service.port}"], **opened(service))
    assert tried.output.splitlines() == [
        "403", "True", "400", "400", "400 400", "[5, 255] 400 [5, 7]", "[5, 7]", "[5, 8]",
    ]  # fmt: skip
    assert service.connections == 0


async def test_the_end_of_the_network_is_the_end_of_each_connection(lab: NetworkLab, service: Service) -> None:
    """A task that lives on has broken connections, and gets no new one: nothing of ours is left inside."""
    script = f"""{TRIES}
one = socket.create_connection(("{NAME}", {service.port}), 60)
one.sendall(b"hello")
print(one.recv(100).decode(), flush=True)
def rest():
    return one.recv(1) or "ended"
tried("open", rest)
tried("new", lambda: connect("127.64.0.1", {service.port}))
tried("proxy", lambda: connect("127.0.0.1", 1080))
tried("name", lambda: socket.getaddrinfo("{NAME}", 1) and None)
tried("last", lambda: "done")
"""
    process = await lab.begin(["/usr/bin/python3", "-c", script], [f"{NAME}:{service.port}"], **opened(service))
    assert process.stdout is not None
    first = await asyncio.to_thread(process.stdout.readline)
    assert first == b"you said hello\n"
    await lab.close()
    output, _ = await asyncio.wait_for(asyncio.to_thread(process.communicate), 90)
    found = json.loads(output)
    assert found.pop("open") in ("ECONNRESET", "ended")
    assert found == {"new": "ECONNREFUSED", "proxy": "ECONNREFUSED", "name": "gaierror", "last": "done"}
