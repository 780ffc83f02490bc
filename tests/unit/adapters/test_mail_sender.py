"""The sender of mail, against a real mail server."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support import certificates
from tests.support.receivers import MailSink, mail_sink
from tests.unit.adapters.test_http_senders import NOW, message
from tickwise.adapters.senders import mail as module
from tickwise.adapters.senders.mail import EmailSender, InstallationMail, MailServer, letter
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.messages import notice_text
from tickwise.domain.notices.rules import NoticeChannel, NoticeChannelKind
from tickwise.ports.senders import DeliveryOutcome, DeliveryResult, NoticeMessage

TO = ("ada@example.com", "grace@example.com")


def installation(sink: MailSink, user: str = "") -> EmailSender:
    """A sender whose installation has this mail server."""
    return EmailSender(InstallationMail(f"smtp://{user}127.0.0.1:{sink.port}", "tickwise@example.com"))


async def send(
    sender: EmailSender,
    told: NoticeMessage | None = None,
    *,
    allow_private: bool = False,
    timeout: float = 60.0,
    **fields: Any,
) -> DeliveryResult:
    """One try."""
    settings, secrets = channel_fields(NoticeChannelKind.EMAIL, {"to": list(TO), **fields})
    channel = NoticeChannel(
        channel_id=UUID(int=2), namespace="default", name="ops", kind=NoticeChannelKind.EMAIL, settings=settings,
        allow_private=allow_private,
    )  # fmt: skip
    return await sender.send(channel, secrets, told or message(), timeout=timeout)


async def test_a_mail_is_text_with_the_same_as_html() -> None:
    """From the installation's address; its id is that of the content, and its thread that of the alert."""
    async with mail_sink() as sink:
        assert (await send(installation(sink))).delivery is DeliveryOutcome.DELIVERED
    [mail] = sink.mails
    got = mail.message
    assert (mail.sender, mail.recipients) == ("tickwise@example.com", list(TO))
    assert (got["From"], got["To"]) == ("Tickwise <tickwise@example.com>", ", ".join(TO))
    assert got["Subject"] == "[critical] night <b>& failed"
    assert got["Message-ID"] == f"<{UUID(int=1)}.1@example.com>"
    assert got["References"] == f"<alert-{UUID(int=4)}@example.com>"
    assert (got["Auto-Submitted"], got["X-Priority"]) == ("auto-generated", "1")
    plain, rich = [got.get_body((kind,)) for kind in ("plain", "html")]
    assert plain is not None
    assert rich is not None
    assert "night <b>&: exit status 1" in plain.get_content()
    html = rich.get_content()
    assert "night &lt;b&gt;&amp;: exit status 1" in html
    assert f'<a href="https://tickwise.example.com/runs/{UUID(int=3)}?namespace=default">Run</a>' in html
    assert "<b>" not in html


@pytest.mark.parametrize(
    "name", ["a\r\nBcc: eve@example.com", "a\nX: y", "Zoë 🎉 報告\u202e", "x" * 5_000, "=?utf-8?q?=0ABcc:_e?="]
)
def test_no_name_makes_a_header(name: str) -> None:
    """Nor a line of another mail."""
    told = message()
    line = told.notice.lines[0]._replace(subject_name=name, sentence="a\r\n.\r\nQUIT")
    whole = message(lines=(line,), rule_name=name)
    words = notice_text(whole.notice)
    made = letter(NoticeMessage(whole.notice, words.title, words.text, words.links, NOW), "t@example.com", TO)
    text = made.as_bytes()
    assert made["Bcc"] is None
    headers = text.partition(b"\r\n\r\n")[0]
    assert not [row for row in headers.split(b"\r\n") if row.lower().startswith((b"bcc", b"x:"))]
    assert b"\r\n.\r\n" not in text


async def test_recipients_that_are_refused_are_told() -> None:
    """All for good: refused. Some: delivered, on record. Some for now: later, to them alone."""
    async with mail_sink() as sink:
        sender = installation(sink)
        sink.refuses = dict.fromkeys(TO, "550 no such user")
        none = await send(sender)
        assert none.delivery is DeliveryOutcome.REFUSED
        assert "ada@example.com: 550" in str(none.error)
        del sink.refuses[TO[0]]
        some = await send(sender)
        assert some.delivery is DeliveryOutcome.DELIVERED
        assert "grace@example.com: 550" in str(some.error)
        sink.refuses = {TO[1]: "451 greylisted, come again"}
        later = await send(sender)
        assert later.delivery is DeliveryOutcome.LATER
        assert later.served == [TO[0]]
        sink.refuses = {}
        rest = message(served=later.served)
        assert await send(sender, rest) == DeliveryResult(DeliveryOutcome.DELIVERED)
        assert [mail.recipients for mail in sink.mails] == [[TO[0]], [TO[0]], [TO[1]]]
        assert await send(sender, rest, to=[TO[0]]) == DeliveryResult(DeliveryOutcome.DELIVERED)
        assert len(sink.mails) == 3
        assert await send(sender) == DeliveryResult(DeliveryOutcome.DELIVERED)
        assert sink.mails[-1].recipients == list(TO)


async def test_a_server_that_is_busy_is_tried_again() -> None:
    """One that refuses the mail itself for good is not; one that is away, or hangs, is."""
    async with mail_sink() as sink:
        sender = installation(sink)
        sink.says = ["451 try later", "554 looks like spam"]
        assert (await send(sender)).delivery is DeliveryOutcome.LATER
        assert (await send(sender)).delivery is DeliveryOutcome.REFUSED
    away = await send(sender)
    assert away.delivery is DeliveryOutcome.LATER
    assert "cannot be reached" in str(away.error)


async def test_a_server_that_hangs_is_left() -> None:
    """When its time is over."""
    held: list[asyncio.StreamWriter] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sender = EmailSender(InstallationMail(f"smtp://127.0.0.1:{port}", "t@example.com"))
    result = await send(sender, timeout=0.3)
    assert result.delivery is DeliveryOutcome.LATER
    for writer in held:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_password_is_shown_to_a_server_alone_that_encrypts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By STARTTLS or from the first byte, with a certificate that is good; never in an error."""
    pair = certificates.make(tmp_path, name="localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    user = "ops:pa%3Ass%2Fword@"
    for starttls in (True, False):
        async with mail_sink(tls=tls, starttls=starttls, host="localhost") as sink:
            url = f"{'smtp' if starttls else 'smtps'}://{user}localhost:{sink.port}"
            sender = EmailSender(InstallationMail(url, "t@example.com"))
            unknown = await send(sender)
            assert unknown.delivery is DeliveryOutcome.LATER
            assert sink.logins == []
            with monkeypatch.context() as patch:
                patch.setenv("SSL_CERT_FILE", str(pair.certificate))
                assert (await send(sender)).delivery is DeliveryOutcome.DELIVERED
                wrong = EmailSender(InstallationMail(url.replace("word@", "WORD@"), "t@example.com"))
                refused = await send(wrong)
            assert set(sink.logins) == {("ops", "pa:ss/word"), ("ops", "pa:ss/WORD")}
            assert sink.mails[0].tls or not starttls
            assert refused.delivery is DeliveryOutcome.LATER
            assert "WORD" not in f"{refused} {unknown}"
    async with mail_sink() as sink:
        monkeypatch.setattr(module, "is_loopback", lambda address: False)
        clear = await send(installation(sink, user))
        assert clear.delivery is DeliveryOutcome.LATER
        assert "STARTTLS" in str(clear.error)
        assert sink.logins == []


async def test_a_channels_own_server_is_reached_where_the_channel_may() -> None:
    """The installation's is reached anywhere."""
    sender = EmailSender(InstallationMail())
    async with mail_sink() as sink:
        own: dict[str, Any] = {"url": f"smtp://127.0.0.1:{sink.port}", "from": "ops@example.net"}
        closed = await send(sender, **own)
        assert closed.delivery is DeliveryOutcome.REFUSED
        assert "allow_private" in str(closed.error)
        assert (await send(sender, allow_private=True, **own)).delivery is DeliveryOutcome.DELIVERED
        assert sink.mails[0].sender == "ops@example.net"
        assert sink.mails[0].message["Reply-To"] is None
        missing = await send(sender)
        assert missing.delivery is DeliveryOutcome.LATER  # it goes when the installation has a server
        assert "TICKWISE_SMTP_URL" in str(missing.error)


async def test_a_channel_does_not_choose_in_whose_name_the_installation_sends() -> None:
    """Its `from` is where answers go; the sender is that of the settings, which must name one."""
    async with mail_sink() as sink:
        fields: dict[str, Any] = {"from": "boss@example.com"}
        assert (await send(installation(sink), **fields)).delivery is DeliveryOutcome.DELIVERED
        [mail] = sink.mails
        assert (mail.sender, mail.message["From"]) == ("tickwise@example.com", "Tickwise <tickwise@example.com>")
        assert mail.message["Reply-To"] == "boss@example.com"
        nobody = await send(EmailSender(InstallationMail(f"smtp://127.0.0.1:{sink.port}")), **fields)
        assert nobody.delivery is DeliveryOutcome.LATER
        assert "TICKWISE_SMTP_FROM" in str(nobody.error)
        assert len(sink.mails) == 1


def test_an_address_of_a_mail_server_is_read() -> None:
    """With the usual port of its scheme, and a password with any characters."""
    assert MailServer.of("smtp://h") == MailServer("h", 587, False, None, None)
    assert MailServer.of("smtps://u:a%40b%3A@[::1]") == MailServer("::1", 465, True, "u", "a@b:")
    for wrong in ("http://h", "smtp://", "h:25", "smtp://h:x"):
        with pytest.raises(ValueError, match=r"mail server|Port"):
            MailServer.of(wrong)
