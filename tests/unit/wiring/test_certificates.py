"""The certificate of the ports: replaced while clients are connected, and never by half a pair."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog

from tests.security.wire import Wire, port
from tests.support.certificates import Pair, make, number_of
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import Misconfigured
from tickwise.observability.metrics import Metrics
from tickwise.wiring.tls.certificates import Certificates, LoadedCertificate, open_certificates

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
CLIENTS = 100


def renamed(folder: Path, old: Pair, new: Pair) -> Pair:
    """Each file is put in the place of the one before at once, as `mv` does it."""
    new.key.replace(old.key)
    new.certificate.replace(old.certificate)
    return old


def rewritten(folder: Path, old: Pair, new: Pair) -> Pair:
    """The same files get another content, as `cp` does it."""
    old.key.write_bytes(new.key.read_bytes())
    old.certificate.write_bytes(new.certificate.read_bytes())
    return old


def switched(folder: Path, old: Pair, new: Pair) -> Pair:
    """A symbolic link above both leads to another folder, as Kubernetes and cert-manager do it."""
    link = folder / "..data"
    (folder / "..new").symlink_to(new.key.parent)
    (folder / "..new").replace(link)
    return old


def relinked(folder: Path, old: Pair, new: Pair) -> Pair:
    """Each file is a symbolic link that is made anew, as certbot does it."""
    for place, target in ((old.key, new.key), (old.certificate, new.certificate)):
        place.unlink()
        place.symlink_to(target)
    return old


@pytest.mark.parametrize("replaced", [renamed, rewritten, switched, relinked])
async def test_a_replaced_pair_is_served_to_new_connections_while_others_stay(
    tmp_path: Path, replaced: Callable[[Path, Pair, Pair], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within seconds and without a restart; a hundred open connections go on."""
    monkeypatch.setattr("tickwise.wiring.tls.certificates.LOOK_SECONDS", 0.05)
    first, second = make(tmp_path / "first"), make(tmp_path / "second")
    (tmp_path / "..data").symlink_to(tmp_path / "first")
    served_pair = (
        Pair(tmp_path / "..data" / "tls.crt", tmp_path / "..data" / "tls.key") if replaced is switched else first
    )
    numbers = (first.number(), second.number())
    settings = Settings(tls_cert_file=served_pair.certificate, tls_key_file=served_pair.key)
    async with open_certificates(settings) as certificates, AsyncExitStack() as stack:
        assert certificates is not None
        here = await stack.enter_async_context(port(certificates=certificates))
        clients: list[Wire] = [await stack.enter_async_context(await here.open()) for _ in range(CLIENTS)]
        assert numbers[0] == await number_of(here.host, here.port)
        replaced(tmp_path, served_pair, second)

        async def is_second() -> bool:
            return await number_of(here.host, here.port) == numbers[1]

        await eventually(is_second, what="the new certificate is served")
        for client in clients:
            client.send(LIVE)
            assert 200 == (await client.answer()).status


async def test_half_a_pair_is_never_served(tmp_path: Path) -> None:
    """A certificate whose key is still the old one: the pair before stays, one error is logged, and the rest is waited
    for."""
    made, other = make(tmp_path / "first"), make(tmp_path / "second")
    certificates, before = Certificates(made.certificate, made.key), made.number()
    async with port(certificates=certificates) as here:
        other.certificate.replace(made.certificate)
        with structlog.testing.capture_logs() as logs:
            await certificates.look()
            await certificates.look()
        (said,) = logs
        assert ("certificate_unusable", "error") == (said["event"], said["log_level"])
        assert "key values mismatch" in said["reason"]
        assert before == await number_of(here.host, here.port)
        other.key.replace(made.key)
        with structlog.testing.capture_logs() as logs:
            await certificates.look()
        assert ["certificate_replaced"] == [each["event"] for each in logs]
        assert made.number() == await number_of(here.host, here.port)


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "no certificate"])
async def test_a_damaged_file_is_not_served(tmp_path: Path, damage: str) -> None:
    """And the whole one that comes after it is."""
    made = make(tmp_path)
    whole = made.certificate.read_bytes()
    certificates = Certificates(made.certificate, made.key)
    context = certificates.context()
    if damage == "gone":
        made.certificate.unlink()
    else:
        made.certificate.write_bytes({"cut": whole[:200], "empty": b"", "no certificate": b"nothing\n"}[damage])
    with structlog.testing.capture_logs() as logs:
        await certificates.look()
    assert ["certificate_unusable"] == [each["event"] for each in logs]
    assert context is certificates.context()
    made.certificate.write_bytes(whole)
    await certificates.look()
    assert context is not certificates.context()


def with_password(made: Pair) -> None:
    """A key that only a person could open."""
    subprocess.run(
        ["openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", str(made.key), "-out", str(made.key)],
        check=True, capture_output=True,
    )  # fmt: skip
    made.key.chmod(0o600)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(lambda made: made.key.unlink(), "the key of TLS .* cannot be read: No such file", id="no key"),
        pytest.param(lambda made: made.certificate.unlink(), "No such file", id="no certificate"),
        pytest.param(with_password, "the key has a password", id="a password"),
        pytest.param(
            lambda made: made.certificate.write_bytes(made.key.read_bytes()), "must be a certificate", id="twice"
        ),
    ],
)
def test_what_cannot_be_served_ends_the_start(tmp_path: Path, damage: Callable[[Pair], None], says: str) -> None:
    """With what is wrong; nobody is asked for a password."""
    made = make(tmp_path)
    damage(made)
    with pytest.raises(Misconfigured, match=says):
        Certificates(made.certificate, made.key)


def test_a_key_of_root_may_be_read_by_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes hands out the files of a Secret: 0440, root, and the group of the pod."""
    made = make(tmp_path)
    made.key.chmod(0o440)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root")
    with pytest.raises(Misconfigured, match="others may read"):
        Certificates(made.certificate, made.key)
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    Certificates(made.certificate, made.key)
    made.key.chmod(0o444)
    with pytest.raises(Misconfigured, match="others may read"):
        Certificates(made.certificate, made.key)


async def test_a_certificate_that_ends_soon_is_said_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, and again a day later; the metric has its end."""
    made = make(tmp_path, days=10)
    with structlog.testing.capture_logs() as logs:
        certificates = Certificates(made.certificate, made.key)
        assert [] == logs
        monkeypatch.setattr("tickwise.wiring.tls.certificates.WARN_SECONDS", float("inf"))
        monkeypatch.setattr(certificates, "loaded", certificates.loaded._replace(begins_at=0.0))
        await certificates.look()
        await certificates.look()
        monkeypatch.setattr("tickwise.wiring.tls.certificates.REMIND_SECONDS", 0.0)
        await certificates.look()
    assert [("certificate_ends", 10.0)] * 2 == [(each["event"], each["days"]) for each in logs]
    metrics = Metrics()
    assert "tickwise_certificate_end_timestamp_seconds NaN" in metrics.render().decode()
    certificates.observe(metrics.certificate_ends)
    (line,) = [
        line for line in metrics.render().decode().splitlines() if line.startswith("tickwise_certificate_end_timestamp")
    ]
    assert certificates.loaded.ends_at == float(line.split()[1])
    assert abs(certificates.loaded.ends_at - SystemClock().now() - 10 * 86_400) < 3_600


@pytest.mark.parametrize(
    ("life_days", "left_days", "soon"),
    [(90, 15, False), (90, 13, True), (90, -1, True), (6, 2, False), (6, 0.9, True), (3_650, 15, False)],
)
def test_when_a_certificate_ends_soon(life_days: float, left_days: float, soon: bool) -> None:
    """14 days before, or in the last sixth of a short life."""
    day = 86_400.0
    loaded = LoadedCertificate(None, "a", (left_days - life_days) * day, left_days * day)  # type: ignore[arg-type]  # not looked at
    assert soon == loaded.ends_soon(0.0)


async def test_a_process_without_a_certificate_watches_nothing() -> None:
    """No task, and plain HTTP."""
    tasks = len(asyncio.all_tasks())
    async with open_certificates(Settings()) as certificates:
        assert (None, tasks) == (certificates, len(asyncio.all_tasks()))
