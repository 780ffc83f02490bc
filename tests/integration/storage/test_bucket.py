"""A bucket of a real S3 server, through links that harm it: what is refused is said, with what to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.services.s3.server import S3
from tests.support.s3_links import S3Link
from tests.support.waiting import eventually
from tickwise.adapters.blobs import BlobAccess, open_blobs
from tickwise.adapters.blobs.s3 import bucket as s3_bucket
from tickwise.adapters.blobs.s3.bucket import MULTIPART_BYTES, S3Blobs
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.control.runs.downloads import Download, DownloadRequest, answer_download
from tickwise.domain.errors import Misconfigured, NotFound, Unavailable
from tickwise.wiring.storage.looks import bucket_findings


def bucket(server: S3, *, endpoint: str | None = None, options: str = "", name: str = "outputs") -> S3Blobs:
    url = server.blobs_url(f"t/{uuid4().hex}", endpoint=endpoint, bucket=name) + options
    access = BlobAccess(access_key_id=server.access_key_id, secret_access_key=server.secret_access_key)
    found = open_blobs(url, access)
    assert isinstance(found, S3Blobs)
    return found


@pytest_asyncio.fixture
async def link(s3_server: S3) -> AsyncIterator[S3Link]:
    async with S3Link(s3_server.url) as made:
        yield made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that is tried again for a minute: for tests that harm the link until they have seen it harmed."""
    monkeypatch.setattr(s3_bucket, "RETRY_SECONDS", 60.0)
    monkeypatch.setattr(s3_bucket, "RETRIES", 20)


async def test_a_large_blob_goes_in_parts_and_comes_back_whole(s3_server: S3) -> None:
    """Also in ranges, and as a stream whose length nobody knew."""
    blobs = bucket(s3_server)
    content = os.urandom(MULTIPART_BYTES + 5_000_001)
    await blobs.put("logs/large", content)
    assert content == await blobs.get("logs/large")
    begin = MULTIPART_BYTES - 7
    assert content[begin : begin + 100] == await blobs.get_range("logs/large", begin, 100)
    pieces = [content[at : at + 3_000_000] for at in range(0, len(content), 3_000_000)]

    async def parts() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    await blobs.put_parts("logs/streamed", parts())
    assert content == await blobs.get("logs/streamed")


async def test_a_download_reads_of_the_bucket_what_was_asked_for(s3_server: S3, link: S3Link) -> None:
    """A range in the middle of a large blob, across parts, is all that comes over the link but for heads."""
    blobs = bucket(s3_server, endpoint=link.url)
    content = os.urandom(MULTIPART_BYTES + 5_000_001)
    await blobs.put("artefacts/large", content)
    file = Download(size=len(content), identity="a", read=partial(blobs.get_range, "artefacts/large"))
    before = link.carried
    found = await answer_download(file, DownloadRequest("bytes=7000000-9999999"))
    assert found.content is not None
    assert content[7_000_000:10_000_000] == b"".join([part async for part in found.content])
    assert 3_000_000 < link.carried - before < 3_010_000
    before = link.carried
    assert (await answer_download(file, DownloadRequest(is_head=True))).content is None
    assert before == link.carried


async def test_a_signed_address_names_the_public_endpoint(s3_server: S3, link: S3Link) -> None:
    """Browsers may not reach the endpoint of the roles."""
    blobs = bucket(s3_server, options=f"&public_endpoint={link.url}")
    await blobs.put("artefacts/a", b"content")
    url = await blobs.signed_url("artefacts/a", 60)
    assert url.startswith(f"{link.url}/outputs/")
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        assert b"content" == (await client.get(url)).content


async def test_an_unknown_key_is_refused_and_said(s3_server: S3) -> None:
    """As a key that was deleted is."""
    blobs = open_blobs(s3_server.blobs_url("a"), BlobAccess(access_key_id="NOBODY", secret_access_key="a-secret"))
    with pytest.raises(Unavailable, match="blobs_access_key_id"):
        await blobs.put("logs/a", b"x")


async def test_a_missing_bucket_is_no_missing_blob(s3_server: S3) -> None:
    """To write, to read and to list."""
    blobs = bucket(s3_server, name="nowhere")
    for call in (blobs.put("logs/a", b"x"), blobs.get("logs/a"), blobs.list("logs/"), blobs.delete(["logs/a"])):
        with pytest.raises(Unavailable, match="'nowhere'.* is not there. Create it"):
            await call


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDenied", "denies this. Give the credentials of this process s3:ListBucket"),
        ("RequestTimeTooSkewed", "clocks of this machine and of the bucket.* differ too much. Run an NTP client"),
        ("SlowDown", "503 SlowDown: too many requests"),
    ],
)
async def test_a_refusal_says_what_to_do(s3_server: S3, link: S3Link, code: str, words: str) -> None:
    """Of each kind of request."""
    blobs = bucket(s3_server, endpoint=link.url)
    await blobs.put("logs/a", b"x")
    link.set(code)
    for call in (blobs.put("logs/a", b"y"), blobs.get("logs/a"), blobs.list("logs/"), blobs.folders("logs/")):
        with pytest.raises(Unavailable, match=words):
            await call
    link.set("pass")
    assert b"x" == await blobs.get("logs/a")


@pytest.mark.usefixtures("patient")
async def test_throttling_is_waited_for(s3_server: S3, link: S3Link) -> None:
    """A store that says SlowDown gets the same request again, more slowly, and nobody hears of it."""
    blobs = bucket(s3_server, endpoint=link.url)
    link.set("SlowDown")
    put = asyncio.create_task(blobs.put("logs/a", b"x"))
    await eventually(lambda: link.answered >= 2, what="it is asked again")
    link.mode = "pass"
    await put
    assert b"x" == await blobs.get("logs/a")


@pytest.mark.usefixtures("patient")
async def test_a_link_that_is_cut_is_tried_again(s3_server: S3, link: S3Link) -> None:
    """In the middle of an upload: whole or not there."""
    blobs = bucket(s3_server, endpoint=link.url)
    content = os.urandom(3_000_000)
    link.set("cut", only=b"PUT")
    put = asyncio.create_task(blobs.put("logs/a", content))
    await eventually(lambda: link.cuts, what="the upload is cut")
    with pytest.raises(NotFound):
        await bucket_of(blobs, s3_server).get("logs/a")
    link.mode = "pass"
    await put
    assert content == await blobs.get("logs/a")


def bucket_of(blobs: S3Blobs, server: S3) -> S3Blobs:
    """The same prefix, past the link."""
    access = BlobAccess(access_key_id=server.access_key_id, secret_access_key=server.secret_access_key)
    found = open_blobs(server.blobs_url(blobs.address.prefix), access)
    assert isinstance(found, S3Blobs)
    return found


async def test_credentials_come_from_the_usual_places(
    s3_server: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment, then the shared file of the AWS tools, by profile; what is wrong with it is said."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    url = s3_server.blobs_url(uuid4().hex)
    file = tmp_path / "credentials"
    pair = f"aws_access_key_id = {s3_server.access_key_id}\naws_secret_access_key = {s3_server.secret_access_key}\n"
    file.write_text(f"[default]\naws_access_key_id = x\naws_secret_access_key = y\n[tick]\n{pair}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "tick")
    await open_blobs(url, BlobAccess(now=SystemClock().now)).put("logs/a", b"x")
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(Misconfigured, match="has no none for the profile 'none'"):
        open_blobs(url)
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_access_key)
    assert b"x" == await open_blobs(url).get("logs/a")


async def test_doctor_tries_all_that_roles_do(s3_server: S3, link: S3Link, tmp_path: Path) -> None:
    """And says which right is missing."""
    settings = Settings(
        data_dir=tmp_path,
        blobs_access_key_id=s3_server.access_key_id,
        blobs_secret_access_key=s3_server.secret_access_key,
    )
    url = s3_server.blobs_url(uuid4().hex, endpoint=link.url)
    found = [finding async for finding in bucket_findings(settings, url)]
    assert [("blobs", "ok"), ("lifecycle", "ok")] == [(each.name, each.level) for each in found]
    assert "lists, takes, gives and deletes" in found[0].detail
    for only, what in ((b"PUT", "cannot write"), (b"POST", "cannot delete"), (b"GET", "cannot list")):
        link.set("AccessDenied", only=only)
        found = [finding async for finding in bucket_findings(settings, url)]
        assert [("blobs", "error")] == [(each.name, each.level) for each in found]
        assert what in found[0].detail
        assert "denies this" in found[0].detail
    link.set("pass")
    waiting = tmp_path / "spool" / "a"
    waiting.mkdir(parents=True)
    (waiting / "0000000000000001!logs!a").write_bytes(b"12345")
    found = [finding async for finding in bucket_findings(settings, url)]
    assert "1 parts of output, 5 bytes, wait in" in found[2].detail
