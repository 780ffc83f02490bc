"""How http tasks prove who they are: signatures, certificates of their own, tokens of an OAuth server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.support.http_calls import OK, Caller, RawRequest, RawServer, calling, raw_server, replies
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Invalid
from tickwise.domain.notices.channels import signing_secret
from tickwise.ports.runner import Verdict

NEW, OLD = signing_secret(b"n" * 32), signing_secret(b"o" * 32)


@pytest_asyncio.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(tmp_path) as made:
        yield made


# -------------------------------------------------------------------------------------------- signatures


@pytest.mark.parametrize("secret", [NEW, OLD])
async def test_a_request_is_signed_by_each_secret(caller: Caller, secret: str) -> None:
    """A receiver that knows the new one, or still the old one, accepts it; the library of Standard Webhooks judges."""
    async with raw_server() as server:
        task: dict[str, Any] = {
            "method": "POST",
            "body": {"order": "{{ payload.id }}"},
            "sign": {"secrets": [NEW, OLD]},
        }
        given = caller.launch(f"{server.url}/", {"id": 7}, **task)
        await caller.listener.ending_of(given)
    (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers}
    assert {"order": 7} == Webhook(secret).verify(request.body, headers)
    assert str(given.run_id) == headers["webhook-id"]
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(request.body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(signing_secret(b"x" * 32)).verify(request.body, headers)


async def test_a_redirect_elsewhere_gets_no_signature(caller: Caller) -> None:
    """Nor does one that drops the body."""
    async with raw_server() as other:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_server(replies(moved)) as server:
            await caller.run(f"{server.url}/", {}, method="POST", sign={"secrets": [NEW]})
    assert server.requests[0].has("webhook-signature")
    assert not other.requests[0].has("webhook-signature")


# ------------------------------------------------------------------------------------------ certificates


class Authority:
    """A certificate authority of a test."""

    def __init__(self, name: str) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(self.name, self.key, [(x509.BasicConstraints(ca=True, path_length=0), True)])

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def pair(
        self, name: str, *, host: str | None = "127.0.0.1", days: int = 1, client: bool = False
    ) -> tuple[str, str]:
        """A certificate and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
        if host is not None:
            is_address = host[0].isdecimal()
            alternative = x509.IPAddress(ip_address(host)) if is_address else x509.DNSName(host)
            extensions.append((x509.SubjectAlternativeName([alternative]), False))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key, extensions, days=days)
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), pem_of(key)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        *,
        days: int = 1,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=10))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self.key, hashes.SHA256())


def pem_of(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


OURS, THEIRS = Authority("Ours"), Authority("Theirs")


def serving(folder: Path, pair: tuple[str, str], *, clients: Authority | None = None) -> ssl.SSLContext:
    """The context of a server; `clients`: whose certificates its clients must have."""
    file = folder / "server.pem"
    file.write_text("".join(pair))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem)
    return context


async def test_a_task_proves_itself_with_its_certificate(caller: Caller, tmp_path: Path) -> None:
    """The server sees whose it is; nothing of the key is on a disk."""
    certificate, key = OURS.pair("billing", host=None, client=True)
    context = serving(tmp_path, OURS.pair("server"), clients=OURS)
    async with raw_server(tls=context) as server:
        tls = {"certificate": certificate, "key": key, "ca": OURS.pem, "minimum_version": "1.3"}
        ending = await caller.run(f"{server.url}/", tls=tls)
    assert Verdict.OK is ending.verdict, ending
    assert ((("commonName", "billing"),),) == server.peers[0]["subject"]


@pytest.mark.parametrize(
    ("pair", "tls", "words"),
    [
        (OURS.pair("server", days=-1), {"ca": OURS.pem}, "the server's certificate has expired"),
        (OURS.pair("server", host="10.1.2.3"), {"ca": OURS.pem}, "made for another address"),
        (OURS.pair("server"), {"ca": THEIRS.pem}, "an authority that is not trusted here"),
        (OURS.pair("server"), {}, "an authority that is not trusted here"),
    ],
    ids=["expired", "wrong host", "unknown authority", "none but the system's"],
)
async def test_a_certificate_that_is_not_accepted_is_told_in_words(
    caller: Caller, tmp_path: Path, pair: tuple[str, str], tls: dict[str, str], words: str
) -> None:
    """What is wrong with it; nothing is sent."""
    async with raw_server(tls=serving(tmp_path, pair)) as server:
        ending = await caller.run(f"{server.url}/", **({"tls": tls} if tls else {}))
        assert [] == server.requests
    assert (Verdict.FAILED, "tls_error") == (ending.verdict, ending.reason)
    assert words in (ending.error or "")


@asynccontextmanager
async def openssl_server(folder: Path, version: str, *options: str) -> AsyncIterator[str]:
    """The server of openssl, which says why it refuses a client: its address."""
    certificate, key = OURS.pair("server")
    for name, content in (("server.crt", certificate), ("server.key", key), ("clients.pem", OURS.pem)):
        (folder / name).write_text(content)
    process = await asyncio.create_subprocess_exec(
        "openssl", "s_server", "-accept", "127.0.0.1:0", "-www", f"-{version}", "-cert", "server.crt", "-key",
        "server.key", *options, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        while not (line := await process.stdout.readline()).startswith(b"ACCEPT"):
            assert line, "openssl ended"
        yield f"https://127.0.0.1:{int(line.rpartition(b':')[2])}/"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
async def test_a_server_that_refuses_the_client_is_told_in_words(caller: Caller, tmp_path: Path, version: str) -> None:
    """No certificate, one of an unknown authority, one that has expired; and the right one is taken."""
    mine, strange, ended = (
        {"certificate": certificate, "key": key, "ca": OURS.pem}
        for certificate, key in (
            OURS.pair("billing", host=None, client=True),
            THEIRS.pair("billing", host=None, client=True),
            OURS.pair("billing", host=None, client=True, days=-1),
        )
    )
    wanted = ("-Verify", "1", "-verify_return_error", "-CAfile", "clients.pem")
    async with openssl_server(tmp_path, version, *wanted) as url:
        none = await caller.run(url, tls={"ca": OURS.pem})
        unknown = await caller.run(url, tls=strange)
        old = await caller.run(url, tls=ended)
        right = await caller.run(url, tls=mine)
    assert Verdict.OK is right.verdict, right
    assert ["tls_error"] * 3 == [each.reason for each in (none, unknown, old)], (none, unknown, old)
    assert "wants a certificate" in (none.error or "")
    assert "does not trust the authority of the client's certificate" in (unknown.error or "")
    assert "the client's certificate has expired" in (old.error or "")


async def test_an_old_version_of_tls_is_refused(caller: Caller, tmp_path: Path) -> None:
    """With the field that asks for more."""
    async with openssl_server(tmp_path, "tls1_2") as url:
        assert Verdict.OK is (await caller.run(url, tls={"ca": OURS.pem})).verdict
        ending = await caller.run(url, tls={"ca": OURS.pem, "minimum_version": "1.3"})
    assert "tls_error" == ending.reason
    assert "tls.minimum_version" in (ending.error or "")


async def test_a_port_without_tls_is_told_in_words(caller: Caller) -> None:
    """Instead of the number of an error."""

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        ending = await caller.run(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert "does not speak TLS on this port" in (ending.error or ""), ending


async def test_files_of_the_operator_are_of_one_namespace(tmp_path: Path) -> None:
    """A task names them, of its own namespace alone, and a renewed one is used at once."""
    certificate, key = OURS.pair("first", host=None, client=True)
    folder = tmp_path / "certificates"
    (folder / "default").mkdir(parents=True)
    for name, content in (("client.pem", certificate), ("client.key", key), ("ca.pem", OURS.pem)):
        (folder / "default" / name).write_text(content)
    tls = {"certificate_file": "client.pem", "key_file": "client.key", "ca_file": "ca.pem"}
    context = serving(tmp_path, OURS.pair("server"), clients=OURS)
    async with calling(tmp_path, http_tls_folder=folder) as caller, raw_server(tls=context) as server:
        assert Verdict.OK is (await caller.run(f"{server.url}/", tls=tls)).verdict
        other = await caller.run(f"{server.url}/", None, {"namespace": "other"}, tls=tls)
        assert (other.reason, "cannot read" in (other.error or "")) == ("tls_error", True)
        certificate, key = OURS.pair("second", host=None, client=True)
        (folder / "default" / "client.pem").write_text(certificate)
        (folder / "default" / "client.key").write_text(key)
        assert Verdict.OK is (await caller.run(f"{server.url}/", tls=tls)).verdict
    names = [peer["subject"][0][0][1] for peer in server.peers if peer]
    assert ["first", "second"] == names
    async with calling(tmp_path) as without:
        assert "http_tls_folder" in ((await without.run("https://127.0.0.1:1/", tls=tls)).error or "")


@pytest.mark.parametrize("name", ["../other/client.pem", "/etc/passwd", ".hidden", "a/b", "", "a" * 200, "a\0b"])
async def test_a_file_is_named_without_a_folder(caller: Caller, name: str) -> None:
    """So no task reads another one's, nor any other file."""
    with pytest.raises(Invalid):
        await caller.run("https://127.0.0.1:1/", tls={"ca_file": name})


async def test_a_pair_that_cannot_work_is_refused_when_it_is_stored(caller: Caller) -> None:
    """No text of it is in the message, and nobody is asked for a password."""
    certificate, key = OURS.pair("one", client=True)
    locked = pem_of(ec.generate_private_key(ec.SECP256R1()), b"pw")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"certificate": certificate}, "/tls/key"),
        ({"key": key}, "/tls/certificate"),
        ({"certificate": certificate, "key": OURS.pair("two")[1]}, "/tls/key"),
        ({"certificate": certificate, "key": locked}, "/tls/key"),
        ({"certificate": "nothing", "key": key}, "/tls/certificate"),
        ({"certificate": certificate, "key": "nothing"}, "/tls/key"),
        ({"ca": key}, "/tls/ca"),
        ({"ca": certificate, "ca_file": "a"}, "/tls/ca_file"),
        ({"minimum_version": "1.0"}, "/tls/minimum_version"),
        ({"verify": False}, "/tls/verify"),
        ({"key": 7}, "/tls/key"),
    ]
    for tls, pointer in cases:
        with pytest.raises(Invalid) as refused:
            caller.launch("https://127.0.0.1/", tls=tls)
        assert pointer == refused.value.pointer, tls
        assert key[40:60] not in refused.value.detail


async def test_a_redirect_elsewhere_gets_no_certificate(caller: Caller, tmp_path: Path) -> None:
    """The authority that is trusted stays, for it is no secret."""
    wanting = serving(tmp_path, OURS.pair("server"), clients=OURS)
    asking = serving(tmp_path, OURS.pair("server"))
    asking.verify_mode = ssl.CERT_OPTIONAL
    asking.load_verify_locations(cadata=OURS.pem)
    certificate, key = OURS.pair("billing", host=None, client=True)
    async with raw_server(tls=asking) as other:
        moved = f"HTTP/1.1 302 Found\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_server(replies(moved), tls=wanting) as server:
            tls = {"certificate": certificate, "key": key, "ca": OURS.pem}
            assert Verdict.OK is (await caller.run(f"{server.url}/", tls=tls)).verdict
    assert [True, False] == [bool(each.peers[0]) for each in (server, other)]


# ------------------------------------------------------------------------------------------------- OAuth


class TokenServer:
    """Gives tokens, each another one, and counts."""

    def __init__(self, **said: Any) -> None:
        self.said: dict[str, Any] = {"expires_in": 3600, "token_type": "Bearer", **said}
        self.given = 0
        self.answers: list[bytes] = []
        """Sent first, one each."""
        self.door = asyncio.Event()
        self.door.set()

    async def reply(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        await self.door.wait()
        if self.answers:
            content = self.answers.pop(0)
        else:
            self.given += 1
            body = json.dumps({"access_token": f"token-{self.given}", **self.said}).encode()
            content = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
                len(body),
                body,
            )
        writer.write(content)
        await writer.drain()


def failing(status: int, body: bytes = b"", more: str = "") -> bytes:
    return f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def oauth(server: RawServer, **more: Any) -> dict[str, Any]:
    return {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": "s:ecret&", **more}


async def test_a_token_is_asked_for_once_and_sent_with_each_request(caller: Caller) -> None:
    """Ten attempts at once, one request for a token; the client proves itself as RFC 6749 says."""
    tokens = TokenServer()
    tokens.door.clear()
    async with raw_server(tokens.reply) as issuer, raw_server() as server:
        said = oauth(issuer, scope="read write", audience="https://api.example.com")
        given = [caller.launch(f"{server.url}/", oauth=said) for _ in range(4)]
        await eventually(lambda: bool(issuer.requests))
        tokens.door.set()
        for each in given:
            assert Verdict.OK is (await caller.listener.ending_of(each)).verdict
        assert Verdict.OK is (await caller.run(f"{server.url}/", oauth=said)).verdict
    assert ["Bearer token-1"] * 5 == [request.header("Authorization") for request in server.requests]
    (asked,) = issuer.requests
    assert "POST /token HTTP/1.1" == asked.line
    pair = base64.b64decode(asked.header("Authorization").removeprefix("Basic ")).decode()
    assert "me:s%3Aecret%26" == pair
    assert {
        "grant_type": ["client_credentials"], "scope": ["read write"], "audience": ["https://api.example.com"],
    } == parse_qs(asked.body.decode())  # fmt: skip


async def test_the_secret_may_be_in_the_body(caller: Caller) -> None:
    """For servers that know no other way."""
    async with raw_server(TokenServer().reply) as issuer, raw_server() as server:
        await caller.run(f"{server.url}/", oauth=oauth(issuer, authentication="client_secret_post"))
    (asked,) = issuer.requests
    assert not asked.has("Authorization")
    assert {
        "grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["s:ecret&"],
    } == parse_qs(asked.body.decode())  # fmt: skip


async def test_a_token_is_of_one_namespace_and_one_client(caller: Caller) -> None:
    """Neither is given that of another one."""
    async with raw_server(TokenServer().reply) as issuer, raw_server() as server:
        await caller.run(f"{server.url}/", oauth=oauth(issuer))
        await caller.run(f"{server.url}/", None, {"namespace": "other"}, oauth=oauth(issuer))
        await caller.run(f"{server.url}/", oauth=oauth(issuer, client_secret="another"))
        await caller.run(f"{server.url}/", oauth=oauth(issuer, scope="more"))
    assert [f"Bearer token-{n}" for n in (1, 2, 3, 4)] == [each.header("Authorization") for each in server.requests]


class LaterClock(SystemClock):
    """A clock that a test sets forward."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


async def test_a_token_is_replaced_shortly_before_its_end(tmp_path: Path) -> None:
    """After nine tenths of its life: of 600 s, 540."""
    clock = LaterClock()
    async with (
        calling(tmp_path, clock=clock) as caller,
        raw_server(TokenServer(expires_in=600).reply) as issuer,
        raw_server() as server,
    ):
        for clock.passed in (0.0, 480.0, 546.0):
            await caller.run(f"{server.url}/", oauth=oauth(issuer))
    assert [f"Bearer token-{number}" for number in (1, 1, 2)] == [
        each.header("Authorization") for each in server.requests
    ]


async def test_a_token_that_is_not_accepted_is_asked_for_once_more(caller: Caller) -> None:
    """At 401, once; the second 401 is the answer."""
    tokens = TokenServer()
    refused = ["token-1"]

    async def reply(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        is_refused = request.header("Authorization").removeprefix("Bearer ") in refused
        writer.write(failing(401, b"who are you?") if is_refused else OK)

    async with raw_server(tokens.reply) as issuer, raw_server(reply) as server:
        assert Verdict.OK is (await caller.run(f"{server.url}/", oauth=oauth(issuer))).verdict
        assert 2 == len(issuer.requests) == len(server.requests)
        refused.append("token-2")
        refused.append("token-3")
        ending = await caller.run(f"{server.url}/", oauth=oauth(issuer))
        assert (Verdict.INVALID, "http_status", ("401",)) == (ending.verdict, ending.reason, ending.symptoms)
        assert 3 == len(issuer.requests)


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (
            failing(401, b'{"error": "invalid_client", "error_description": "no\\nsuch client"}'),
            Verdict.INVALID,
            "answered 401: invalid_client: no such client",
        ),
        (failing(400, b'{"error": "invalid_scope"}'), Verdict.INVALID, "answered 400: invalid_scope"),
        (failing(503, b"<html>"), Verdict.FAILED, "answered 503"),
        (failing(500, b'{"error": "server_error"}'), Verdict.FAILED, "answered 500"),
        (failing(302, b"", "Location: http://127.0.0.1:1/\r\n"), Verdict.INVALID, "a redirect, which is not followed"),
        (failing(200, b"not json"), Verdict.FAILED, "answered 200"),
        (failing(200, b"[1]"), Verdict.FAILED, "answered 200"),
        (failing(200, b"{}"), Verdict.FAILED, "answered 200"),
        (failing(200, b'{"access_token": "a b"}'), Verdict.FAILED, "a token that no header can hold"),
        (failing(200, b'{"access_token": "a\\r\\nX: y"}'), Verdict.FAILED, "a token that no header can hold"),
        (failing(200, b'{"access_token": ["a"]}'), Verdict.FAILED, "a token that no header can hold"),
        (failing(200, b'{"access_token": "a", "token_type": "mac"}'), Verdict.INVALID, "another type than Bearer"),
        (failing(200, b"\xff\xfe"), Verdict.FAILED, "answered 200"),
        (failing(200, b" " * 70_000 + b"{}"), Verdict.FAILED, "more than 65536 bytes"),
        (b"nonsense\r\n\r\n", Verdict.FAILED, "no answer of"),
    ],
)
async def test_a_failure_says_which_request_failed(caller: Caller, answer: bytes, verdict: Verdict, words: str) -> None:
    """The request for a token; the other one is not sent, and no secret is in the error."""
    tokens = TokenServer()
    tokens.answers = [answer]
    async with raw_server(tokens.reply) as issuer, raw_server() as server:
        ending = await caller.run(f"{server.url}/", oauth=oauth(issuer))
        assert (verdict, "token_error") == (ending.verdict, ending.reason), ending
        assert "the request for a token" in (ending.error or "")
        assert words in (ending.error or "")
        assert not [secret for secret in ("s:ecret", "s%3Aecret") if secret in (ending.error or "")]
        assert [] == server.requests
        assert Verdict.OK is (await caller.run(f"{server.url}/", oauth=oauth(issuer))).verdict


async def test_the_address_of_tokens_is_judged_too(tmp_path: Path) -> None:
    """A task that may not call an address gets no token from there either."""
    async with raw_server(TokenServer().reply) as issuer, calling(tmp_path, http_allow=()) as caller:
        ending = await caller.run("https://example.com/", oauth=oauth(issuer))
    assert (Verdict.INVALID, "token_error") == (ending.verdict, ending.reason)
    assert "is not public" in (ending.error or "")
    assert [] == issuer.requests


async def test_an_attempt_that_is_stopped_does_not_take_the_token_from_the_others(caller: Caller) -> None:
    """The request for it goes on for those who wait."""
    tokens = TokenServer()
    tokens.door.clear()
    async with raw_server(tokens.reply) as issuer, raw_server() as server:
        first, second = (caller.launch(f"{server.url}/", oauth=oauth(issuer)) for _ in range(2))
        await eventually(lambda: bool(issuer.requests))
        caller.runner.stop(first.run_id, grace_seconds=0.0)
        assert Verdict.CANCELLED is (await caller.listener.ending_of(first)).verdict
        tokens.door.set()
        assert Verdict.OK is (await caller.listener.ending_of(second)).verdict
    assert 1 == len(issuer.requests)


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"secret": "x"}, "/sign/secret"),
        ({"secrets": []}, "/sign/secrets"),
        ({"secrets": [NEW, OLD, NEW]}, "/sign/secrets"),
        ({"secrets": ["whsec_s3cr3t"]}, "/sign/secrets/0"),
        ({"secrets": [NEW, NEW.removeprefix("whsec_")]}, "/sign/secrets/1"),
        ({"secrets": [7]}, "/sign/secrets/0"),
        ("x", "/sign"),
    ],
)
def test_a_signing_secret_is_checked_when_it_is_stored(tmp_path: Path, said: Any, pointer: str) -> None:
    """No text of one is in the message."""
    with pytest.raises(Invalid) as refused:
        Caller(tmp_path).runner.kinds[0].check({"kind": "http", "url": "https://example.com/", "sign": said})
    assert pointer == refused.value.pointer
    assert "s3cr3t" not in refused.value.detail


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"token_url": "ftp://x/"}, "/oauth/token_url"),
        ({"token_url": "https://a:s3cr3t@x/"}, "/oauth/token_url"),
        ({"token_url": None}, "/oauth/token_url"),
        ({"client_id": ""}, "/oauth/client_id"),
        ({"client_secret": "s3cr3t\n"}, "/oauth/client_secret"),
        ({"scope": "a  b"}, "/oauth/scope"),
        ({"authentication": "none"}, "/oauth/authentication"),
        ({"grant_type": "password"}, "/oauth/grant_type"),
    ],
)
def test_a_sign_in_is_checked_when_it_is_stored(tmp_path: Path, changes: dict[str, Any], pointer: str) -> None:
    """No text of a secret is in the message."""
    said = {"token_url": "https://x/", "client_id": "a", "client_secret": "b", **changes}
    with pytest.raises(Invalid) as refused:
        Caller(tmp_path).runner.kinds[0].check({"kind": "http", "url": "https://example.com/", "oauth": said})
    assert pointer == refused.value.pointer
    assert "s3cr3t" not in refused.value.detail
