"""What the light S3 server of `make test` does not do: signatures, their times, and uploads that are given up.

`make test-s3` plays these on versitygw.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.integration.storage.test_bucket import bucket
from tests.services.s3.server import S3
from tickwise.adapters.blobs import BlobAccess, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import Unavailable


async def test_a_stream_that_fails_leaves_nothing(s3_server: S3) -> None:
    """A reader never sees a part."""
    blobs = bucket(s3_server)

    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * 6_000_000
        raise RuntimeError("the source is gone")

    with pytest.raises(Exception, match="the source is gone"):
        await blobs.put_parts("logs/streamed", parts())
    assert [] == list(await blobs.list("logs/"))


async def test_a_signed_address_gives_one_blob_for_a_time(s3_server: S3) -> None:
    """Without a key, until it has expired, and no other blob."""
    blobs = bucket(s3_server)
    await blobs.put("artefacts/a", b"content")
    await blobs.put("artefacts/b", b"other")
    url = await blobs.signed_url("artefacts/a", 60)
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        answer = await client.get(url)
        assert (200, b"content") == (answer.status_code, answer.content)
        part = await client.get(url, headers={"Range": "bytes=3-5"})
        assert (206, b"ten") == (part.status_code, part.content)
        assert 403 == (await client.get(url.replace("artefacts/a", "artefacts/b"))).status_code
        short = await blobs.signed_url("artefacts/a", 1)
        await SystemClock().sleep(2.1)
        assert 403 == (await client.get(short)).status_code


async def test_a_wrong_secret_is_refused_and_said(s3_server: S3) -> None:
    """The server checks signatures, and the error says which setting to mend."""
    access = BlobAccess(access_key_id=s3_server.access_key_id, secret_access_key="another-secret")
    blobs = open_blobs(s3_server.blobs_url("a"), access)
    with pytest.raises(Unavailable, match="blobs_secret_access_key.*SignatureDoesNotMatch"):
        await blobs.put("logs/a", b"x")
    with pytest.raises(Unavailable, match="bucket 'outputs'"):
        await blobs.get("logs/a")
