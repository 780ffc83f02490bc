"""Notices by e-mail: plain text with the same as HTML beside it, one thread for each alert.

    smtp://user:password@host:587    STARTTLS if the server offers it; it must, if there is a password
    smtps://user:password@host:465   TLS from the first byte

    4xx, no connection, wrong password   later
    5xx for each recipient               refused for good
    some recipients refused              delivered, and on record; those that may be tried later are tried later, alone

Who has a mail is on record with its notice (`Notice.served`), so another process that tries the rest leaves them out.
One that ends after the server took a mail, and before that is on record, has it sent again, with the same id.

Invariants: a certificate is verified. A server that a channel names is reached only at addresses that are public, or
that the channel may reach; that of the installation's settings at any. Mail through the installation's server is sent
from the address of its settings: a channel's `from` is where answers go.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as POLICY
from email.utils import format_datetime
from html import escape
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tickwise.adapters.outgoing.access import PRIVATE, AddressRefused, HttpAccess
from tickwise.adapters.outgoing.lookups import Lookups
from tickwise.adapters.senders.http_delivery import ADVICE
from tickwise.adapters.senders.outcomes import DELIVERED, later, refused
from tickwise.domain.networks import is_loopback
from tickwise.domain.notices.rules import NoticeChannel, Severity
from tickwise.ports.senders import ChannelSender, DeliveryOutcome, DeliveryResult, NoticeMessage

if TYPE_CHECKING:
    from aiosmtplib import SMTP

LIBRARY: Final = "aiosmtplib"
SUBMISSION_PORT: Final = 587
TLS_PORT: Final = 465


class MailServer(NamedTuple):
    """A server that takes mail."""

    host: str
    port: int
    tls: bool
    user: str | None
    password: str | None

    @classmethod
    def of(cls, url: str) -> MailServer:
        """Read an address. Raises `ValueError`."""
        parts = urlsplit(url)
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ValueError("an address of a mail server is smtp://host:port or smtps://host:port")
        tls = parts.scheme == "smtps"
        user, password = parts.username, parts.password
        return cls(
            parts.hostname,
            parts.port or (TLS_PORT if tls else SUBMISSION_PORT),
            tls,
            None if user is None else unquote(user),
            None if password is None else unquote(password),
        )


@dataclass(frozen=True, slots=True)
class InstallationMail:
    """The mail server of the settings, for channels that name none."""

    url: str | None = None
    sender: str | None = None


class EmailSender(ChannelSender):
    """The sender of kind `email`."""

    def __init__(self, installation: InstallationMail, lookups: Lookups | None = None) -> None:
        """`lookups` that other senders share."""
        self._installation = installation
        self._lookups = lookups or Lookups()
        self._is_loaded = False

    async def send(
        self, channel: NoticeChannel, secrets: Mapping[str, str], message: NoticeMessage, *, timeout: float
    ) -> DeliveryResult:
        """See the port."""
        own = secrets.get("url")
        url, named = own or self._installation.url, channel.settings.get("from")
        # In the name of the installation's server, which may be that of a company, no channel sends as somebody else.
        sender, answers = (named, None) if own else (self._installation.sender, named)
        hidden = secrets if own else {"url": url or ""}
        if url is None or not sender:
            # A set-up that is not whole yet, and no word of a receiver: what waits goes when there is a server.
            return later(
                "no mail server: set TICKWISE_SMTP_URL and TICKWISE_SMTP_FROM, or give the channel `url` and `from`",
                hidden,
            )
        to = channel.settings.get("to")
        whole = [str(each) for each in to] if isinstance(to, list | tuple) else []
        access, served = None, message.notice.served
        if own:
            access = HttpAccess(networks=PRIVATE if channel.allow_private else (), advice=ADVICE)
        await self.load()
        try:
            async with asyncio.timeout(timeout):
                mail = letter(message, str(sender), whole, answers=answers)
                return await self._deliver(MailServer.of(url), access, mail, served, hidden, timeout)
        except TimeoutError:
            return later(f"the mail server did not answer within {timeout:g} s", hidden, served=served)
        except AddressRefused as error:
            return refused(str(error), hidden)
        except OSError as error:  # before `ValueError`: a certificate that is not good is both
            return later(f"the mail server cannot be reached: {error}", hidden, served=served)
        except ValueError as error:
            return refused(f"the channel's fields cannot be used: {error}", hidden)

    async def load(self) -> None:
        """See the port."""
        if not self._is_loaded:
            await asyncio.to_thread(import_module, LIBRARY)
            self._is_loaded = True

    async def close(self) -> None:
        """See the port."""
        self._lookups.close()

    async def _deliver(
        self,
        server: MailServer,
        access: HttpAccess | None,
        mail: EmailMessage,
        served: Sequence[str],
        hidden: Mapping[str, str],
        timeout: float,
    ) -> DeliveryResult:
        from aiosmtplib import SMTP, SMTPException, SMTPRecipientsRefused, SMTPResponseException

        recipients = [each for each in _addresses(mail) if each not in served]
        if not recipients:  # those who did not have it are recipients no more
            return DELIVERED
        sock = await _connected(server, access, self._lookups)
        smtp = SMTP(
            hostname=server.host,
            port=None,
            sock=sock,
            use_tls=server.tls,
            start_tls=None if not server.tls else False,
            local_hostname=socket.gethostname(),
            timeout=timeout,
        )
        try:
            await smtp.connect()
            await _sign_in(smtp, server)
            partly, _ = await smtp.send_message(mail, recipients=recipients)
            refusals = {name: (reply.code, reply.message) for name, reply in partly.items()}
        except SMTPRecipientsRefused as error:
            refusals = {each.recipient: (each.code, each.message) for each in error.recipients}
        except SMTPResponseException as error:
            why = f"the mail server answered {error.code} {error.message}"
            is_content = 500 <= error.code < 600 and type(error).__name__ == "SMTPDataError"
            return refused(why, hidden) if is_content else later(why, hidden, served=served)
        except SMTPException as error:
            return later(f"the mail server: {error}".replace(" on port None", ""), hidden, served=served)
        finally:
            smtp.close()  # the connection is the library's; a server that hangs is not waited for
        return _outcome(recipients, served, refusals, hidden)


def letter(message: NoticeMessage, sender: str, to: Sequence[str], *, answers: object = None) -> EmailMessage:
    """The mail; answers go to the address `answers`, if there is one.

    Raises `ValueError` for an address that cannot stand in a header.
    """
    notice = message.notice
    domain = sender.rpartition("@")[2]
    mail = EmailMessage(policy=POLICY)
    mail["Subject"] = message.title
    mail["From"] = f"Tickwise <{sender}>"
    if answers:
        mail["Reply-To"] = str(answers)
    mail["To"] = ", ".join(to)
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.now, UTC))
    mail["Message-ID"] = f"<{notice.notice_id}.{notice.events}@{domain}>"
    alerts = dict.fromkeys(line.alert_id for line in notice.lines if line.alert_id is not None)
    if alerts:
        # No mail has this id. All mails about an alert name it, so that programs show them as one thread.
        mail["References"] = " ".join(f"<alert-{each}@{domain}>" for each in list(alerts)[-10:])
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    if notice.severity is Severity.CRITICAL:
        mail["X-Priority"] = "1"
    mail.set_content(message.text)
    mail.add_alternative(_html(message), subtype="html")
    return mail


def _outcome(
    recipients: Sequence[str],
    served: Sequence[str],
    refusals: Mapping[str, tuple[int, str]],
    hidden: Mapping[str, str],
) -> DeliveryResult:
    """The outcome for `recipients`, beside those who were served before."""
    if not refusals:
        return DELIVERED
    why = "; ".join(f"{name}: {code} {said}" for name, (code, said) in refusals.items())
    rest = {name for name, (code, _) in refusals.items() if code < 500}
    if rest:
        # Those who are refused for good are done with, too: they are not asked about again.
        return later(why, hidden, served=[*served, *(each for each in recipients if each not in rest)])
    if not served and len(refusals) == len(recipients):
        return refused(why, hidden)
    return DeliveryResult(DeliveryOutcome.DELIVERED, refused(why, hidden).error)


def _html(message: NoticeMessage) -> str:
    links = {f"{label}: {url}" for label, url in message.links.items()}
    lines = "<br>\n".join(escape(line) for line in message.text.split("\n") if line not in links)
    anchors = " · ".join(f'<a href="{escape(url)}">{escape(label)}</a>' for label, url in message.links.items())
    return (
        f'<!doctype html><html><body style="font-family: sans-serif"><h3>{escape(message.title)}</h3>\n'
        f"<p>{lines}</p>\n{f'<p>{anchors}</p>' if anchors else ''}</body></html>\n"
    )


def _addresses(mail: EmailMessage) -> list[str]:
    return [each.addr_spec for each in mail["To"].addresses]


async def _sign_in(smtp: SMTP, server: MailServer) -> None:
    """Show the password, to a server that nobody listens to. Raises `OSError`."""
    if server.user is None or server.password is None:
        return
    if smtp.transport is None or (smtp.transport.get_extra_info("sslcontext") is None and not is_loopback(_peer(smtp))):
        raise OSError("it offers no STARTTLS, and the password is not sent in clear text: use smtps://")
    await smtp.login(server.user, server.password)


def _peer(smtp: SMTP) -> str:
    peer = smtp.transport.get_extra_info("peername") if smtp.transport is not None else None
    return str(peer[0]) if peer else ""


async def _connected(server: MailServer, access: HttpAccess | None, lookups: Lookups) -> socket.socket:
    """A connection to the server, to an address that was judged. Raises `AddressRefused`, `OSError`."""
    loop = asyncio.get_running_loop()
    found = await lookups.addresses(server.host, server.port)
    if access is not None:
        for *_, address in found:
            access.check(ip_address(str(address[0]).partition("%")[0]), server.host.lower(), server.port)
    failure: OSError = OSError("its name has no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure
