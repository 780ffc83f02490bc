"""Attacks on the port that speaks TLS, and on what travels without."""

from __future__ import annotations

import asyncio
import os
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
import structlog

from tests.security.probes import probe
from tests.security.wire import Port, port, request
from tests.support.certificates import NAME, Pair, make, number_of, trust
from tests.support.waiting import eventually
from tickwise.api.connections import ConnectionLimits
from tickwise.api.edge.protection import HSTS, PROTECTION
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.wiring.tls.certificates import Certificates
from tickwise.wiring.tls.clear_text import clear_text

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO_OF_TLS = bytes.fromhex("1603010200010001fc0303") + os.urandom(32)
"""The begin of a ClientHello."""
SHORT = ConnectionLimits(header_seconds=0.3)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def certificates(pair: Pair) -> Certificates:
    return Certificates(pair.certificate, pair.key)


@pytest_asyncio.fixture
async def served(certificates: Certificates) -> AsyncIterator[Port]:
    async with port(certificates=certificates) as made:
        yield made


@probe(11, stopped_by="400 in plain HTTP, which names https, and the end; nothing of the request is done")
async def test_plain_http_on_the_port_of_tls(served: Port) -> None:
    """A request with a key, and a second one behind it, without TLS on the port that speaks TLS."""
    async with await served.open_raw() as wire:
        wire.send(request("POST", "/api/v1/queues/default/hold", body=b'{"reason":"a probe"}') + LIVE)
        answer = await wire.answer()
        assert (400, "http_malformed") == (answer.status, answer.json["code"])
        assert "https://" in answer.json["detail"]
        assert "strict-transport-security" not in answer.headers
        assert b"" == await wire.ended()
    assert 404 == (await served.here.client.get("/api/v1/queues/default")).status_code


@probe(11, stopped_by="400, and the end")
async def test_a_hello_of_tls_on_the_plain_port() -> None:
    """The first bytes of TLS on a port that speaks plain HTTP."""
    async with port() as served, await served.open() as wire:
        wire.send(HELLO_OF_TLS)
        answer = await wire.answer()
        assert (400, "http_malformed") == (answer.status, answer.json["code"])
        assert b"" == await wire.ended()


@probe(11, stopped_by="an alert of TLS and the end")
@pytest.mark.parametrize(
    "bytes_sent",
    [
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\0" * 64, id="a record that is too long"),
        pytest.param(b"\x16" * 2048, id="nothing but first bytes"),
        pytest.param(b"\x80\x2e\x01\x03\x01", id="a hello of SSL 2"),
        pytest.param(b"\x15\x03\x01\x00\x02\x01\x00", id="an alert before the handshake"),
        pytest.param(b"\x17\x03\x03\x00\x10" + b"\0" * 16, id="data before the handshake"),
    ],
)
async def test_bytes_that_are_no_handshake(served: Port, bytes_sent: bytes) -> None:
    """Records that are broken, of another protocol, or out of order."""
    async with await served.open_raw() as wire:
        wire.send(bytes_sent)
        async with asyncio.timeout(60):
            assert b"alive" not in await wire.ended()
    await _serves(served)


@probe(11, stopped_by="TLS 1.2 at least, 1.3 where the setting says so")
@pytest.mark.parametrize(("least", "most"), [("1.2", "TLSv1_1"), ("1.3", "TLSv1_2")])
async def test_a_downgrade(pair: Pair, least: str, most: str) -> None:
    """A client that speaks nothing newer than a version that was broken, or that the operator ruled out."""
    client = trust(pair.certificate)
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        client.maximum_version = ssl.TLSVersion[most]
    async with port(certificates=Certificates(pair.certificate, pair.key, version_least=least)) as served:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(served.host, served.port, ssl=client, server_hostname=NAME)
        await _serves(served)


@probe(11, stopped_by="the handshake is refused at its first message")
async def test_a_weak_cipher(served: Port, pair: Pair) -> None:
    """A client that offers only ciphers without forward secrecy, or without encryption."""
    client = trust(pair.certificate)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("AES128-SHA:AES256-SHA256:eNULL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(served.host, served.port, ssl=client, server_hostname=NAME)
    await _serves(served)


@probe(11, stopped_by="the deadline of a head, from the first moment of the connection")
@pytest.mark.parametrize("begin", [b"", HELLO_OF_TLS[:1], HELLO_OF_TLS], ids=["silent", "one byte", "half a hello"])
async def test_a_handshake_that_does_not_go_on(certificates: Certificates, begin: bytes) -> None:
    """Connections that begin a handshake, and say nothing more."""
    async with port(SHORT, certificates=certificates) as served, await served.open_raw() as wire:
        wire.send(begin)
        async with asyncio.timeout(60):
            await wire.ended()


@probe(11, stopped_by="the deadline of a head, from the first moment of the connection")
async def test_a_handshake_byte_by_byte(certificates: Certificates) -> None:
    """A hello that is sent one byte at a time, each in time, so that no pause is long."""
    async with port(SHORT, certificates=certificates) as served, await served.open_raw() as wire:
        ended = asyncio.ensure_future(wire.ended())
        async with asyncio.timeout(60):
            for byte in HELLO_OF_TLS * 100:
                wire.send(bytes([byte]))
                if (await asyncio.wait([ended], timeout=0.1))[0]:
                    break
            await ended


@probe(11, stopped_by="the longest waiting one makes room, also in the middle of its handshake")
async def test_half_open_handshakes_keep_nobody_out(certificates: Certificates) -> None:
    """More connections in the middle of a handshake than the server may have."""
    limits = ConnectionLimits(connections=16, header_seconds=60)
    async with port(limits, certificates=certificates) as served, AsyncExitStack() as stack:
        for _ in range(64):
            wire = await stack.enter_async_context(await served.open_raw())
            wire.send(HELLO_OF_TLS)
        await _serves(served)


@probe(11, stopped_by="408, encrypted, and the end of the connection")
async def test_a_slow_head_within_tls(certificates: Certificates) -> None:
    """A handshake that is done, and half a head."""
    # The time of the head counts from the connection on, and its handshake must fit into it: else it is cut.
    for seconds in (1.5, 6.0, 20.0):
        limits = ConnectionLimits(header_seconds=seconds)
        async with port(limits, certificates=certificates) as served, asyncio.timeout(60):
            try:
                wire = await served.open()
            except (ssl.SSLError, ConnectionError):
                continue
            async with wire:
                wire.send(LIVE[:20])
                answer = await wire.answer()
                assert 408 == answer.status
                assert b"" == await wire.ended()
                return
    raise AssertionError("no handshake came to its end")


@probe(11, stopped_by="413 or 431, encrypted, which the client reads although it goes on sending")
async def test_too_much_within_tls(certificates: Certificates) -> None:
    """Headers and bodies over their limits, inside of TLS."""
    async with port(certificates=certificates) as served:
        async with await served.open() as wire:
            wire.send(LIVE[:-2] + b"".join(b"X-%05d: %s\r\n" % (n, b"a" * 1000) for n in range(90)))
            assert 431 == (await wire.answer()).status
            assert b"" == await wire.ended()
        async with await served.open() as wire:
            wire.send(request("POST", "/api/v1/jobs", body=b"[" * ((1 << 20) + 1)))
            assert 413 == (await wire.answer()).status


@probe(11, stopped_by="the connection is cut when nothing was taken for a while")
async def test_answers_within_tls_that_nobody_reads(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client within TLS that asks again and again, and reads nothing."""
    monkeypatch.setattr("tickwise.api.connections.STALL_SECONDS", 0.2)
    monkeypatch.setattr("tickwise.api.connections.PIPELINE_MAX", 64)  # so many answers fill what the kernel buffers
    async with port(certificates=certificates) as served, await served.open() as wire:
        wire.pause()
        with structlog.testing.capture_logs() as logs:
            for _ in range(40):
                wire.send(request("GET", "/openapi.json"))
            await eventually(
                lambda: [each for each in logs if "answer_unread" in each.get("codes", {})],
                what="the connection is cut",
            )
        wire.abort()


@probe(11, stopped_by="a key that others may read is refused at the start, with what to do")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
async def test_a_key_that_others_may_read(tmp_path: Path, mode: int) -> None:
    """A private key of TLS with open permissions."""
    made = make(tmp_path)
    made.key.chmod(mode)
    with pytest.raises(Misconfigured, match=f"others may read the key of TLS {made.key}: chmod 600"):
        Certificates(made.certificate, made.key)


@probe(11, stopped_by="the one before stays in force, and an error is logged")
async def test_a_replaced_key_that_others_may_read(tmp_path: Path) -> None:
    """A renewal that leaves the new key open to everybody."""
    made = make(tmp_path / "in force")
    certificates = Certificates(made.certificate, made.key)
    before, other = made.number(), make(tmp_path / "new")
    async with port(certificates=certificates) as served:
        other.key.chmod(0o644)
        other.key.replace(made.key)
        other.certificate.replace(made.certificate)
        await certificates.look()
        assert before == await number_of(served.host, served.port)


@probe(11, stopped_by="a warning at the start and by `doctor`, unless TLS ends here or at a declared proxy")
@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(), False),
        (Settings(host="::1"), False),
        (Settings(host="localhost"), False),
        (Settings(host="127.0.0.2"), False),
        (Settings(host="0.0.0.0"), True),
        (Settings(host="::"), True),
        (Settings(host="10.1.2.3"), True),
        (Settings(host="tickwise.example.org"), True),
        (Settings(host="0.0.0.0", tls_ends_at="proxy"), False),
        (Settings(host="0.0.0.0", tls_cert_file=Path("/a"), tls_key_file=Path("/b")), False),
        (Settings(host="0.0.0.0", tls_cert_file=Path("/a"), tls_key_file=Path("/b"), tls_ports=("health",)), True),
    ],
)
async def test_keys_that_travel_in_clear(settings: Settings, warned: bool) -> None:
    """An API that other machines reach without TLS."""
    assert warned == (clear_text(settings) is not None)


@probe(11, stopped_by="the headers are on every answer, and HSTS on each within TLS alone")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(LIVE, 200, id="health"),
        pytest.param(request("GET", "/api/v1/jobs"), 200, id="a route"),
        pytest.param(request("GET", "/api/v1/nothing"), 404, id="no route"),
        pytest.param(request("GET", "/api/v1/jobs", key="wrong" * 10), 401, id="a wrong key"),
        pytest.param(request("DELETE", "/api/v1/jobs"), 405, id="no method"),
        pytest.param(request("POST", "/api/v1/jobs", body=b"{"), 400, id="the hot route"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="no HTTP"),
        pytest.param(LIVE[:-2] + b"A:\r\n" * 300 + b"\r\n", 431, id="before any route"),
    ],
)
async def test_an_answer_without_protection(served: Port, sent: bytes, status: int) -> None:
    """Answers of every kind, read by a browser that looks for something to run."""
    wanted = {name.decode(): value.decode() for name, value in PROTECTION}
    hsts = {HSTS[0].decode(): HSTS[1].decode()}
    async with port() as plain:
        for place, expected in ((served, wanted | hsts), (plain, wanted)):
            async with await place.open() as wire:
                wire.send(sent)
                answer = await wire.answer()
                assert status == answer.status
                assert expected == {name: answer.headers.get(name) for name in expected}
                assert (HSTS[0].decode() in answer.headers) == (place is served)


async def _serves(served: Port) -> None:
    """Others are served."""

    async def alive() -> bool:
        async with await served.open() as wire:
            wire.send(LIVE)
            return (await wire.answer()).status == 200

    await eventually(alive, what="others are served")
