"""Receivers of notices: a real HTTP server and a real SMTP server, which fail as they are told to."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiohttp import web
from aiosmtpd import smtp as smtpd
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

MIB = 1 << 20


@dataclass
class Got:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Receiver:
    """An HTTP server. `says` are the answers to come: a status, or a word for a way to fail; then 204."""

    url: str
    got: list[Got] = field(default_factory=list)
    says: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    text: str = "no"
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends what hangs."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One answer."""
        self.got.append(Got(request.path_qs, dict(request.headers), await request.read()))
        self.arrived.set()
        said = self.says.pop(0) if self.says else 204
        if isinstance(said, int):
            return web.Response(status=said, text=self.text if said >= 300 else None, headers=self.headers)
        return await getattr(self, f"_{said}")(request)  # type: ignore[no-any-return]  # one of the methods below

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        await self.release.wait()
        return web.Response(status=204)

    async def _reset(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response(status=204)

    async def _flood(self, request: web.Request) -> web.StreamResponse:
        """500 with 10 MB."""
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                await response.write(b"x" * MIB)
        return response

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """500, and then a byte from time to time, for ever."""
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while not self.release.is_set():
                await response.write(b"x")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self.release.wait()
        return response


@contextlib.asynccontextmanager
async def receiver(host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """A receiver on a free port."""
    app = web.Application(client_max_size=MIB)
    found = Receiver("")
    app.router.add_route("*", "/{tail:.*}", found.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    try:
        port = cast("Any", site)._server.sockets[0].getsockname()[1]
        found.url = f"http://{host}:{port}"
        yield found
    finally:
        found.release.set()
        await runner.cleanup()


@dataclass
class Mail:
    """A mail that came."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    tls: bool


@dataclass
class MailSink:
    """An SMTP server. `refuses` are answers to recipients; `says` answers to mails to come, or `hang`, then 250."""

    port: int = 0
    mails: list[Mail] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    says: list[str] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends what hangs."""

    async def handle_RCPT(  # noqa: N802  # the library's name
        self, server: smtpd.SMTP, session: Session, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        """The library calls it for each recipient."""
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: smtpd.SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802  # as above
        """The library calls it for each mail."""
        said = self.says.pop(0) if self.says else None
        if said == "hang":
            await self.release.wait()
        elif said is not None:
            return said
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=default)
        is_tls = session.ssl is not None
        self.mails.append(Mail(str(envelope.mail_from), list(envelope.rcpt_tos), message, is_tls))
        return "250 OK"

    def authenticated(
        self, server: smtpd.SMTP, session: Session, envelope: Envelope, mechanism: str, auth_data: Any
    ) -> AuthResult:
        """The library asks it for each sign-in."""
        assert isinstance(auth_data, LoginPassword)
        login = auth_data.login.decode(), auth_data.password.decode()
        self.logins.append(login)
        return AuthResult(success=login == ("ops", "pa:ss/word"), handled=False)


@contextlib.asynccontextmanager
async def mail_sink(
    *, tls: ssl.SSLContext | None = None, starttls: bool = False, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[MailSink]:
    """A mail server; with `tls` it speaks it from the first byte, or with `starttls` on request."""
    sink = MailSink()

    def protocol() -> smtpd.SMTP:
        return smtpd.SMTP(
            sink,
            enable_SMTPUTF8=True,
            tls_context=tls if starttls else None,
            require_starttls=starttls,
            authenticator=sink.authenticated,
            auth_require_tls=starttls,
            loop=asyncio.get_running_loop(),
        )

    make: Callable[[], asyncio.Protocol] = protocol
    server = await asyncio.get_running_loop().create_server(make, host, port, ssl=None if starttls else tls)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        sink.release.set()
        server.close()
        await server.wait_closed()
