"""Addresses of buckets, and what a bucket's answers mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwise.adapters.blobs import BlobAccess, open_blobs
from tickwise.adapters.blobs.s3.address import read_address
from tickwise.adapters.blobs.s3.failures import sentence_of
from tickwise.domain.errors import Misconfigured


def test_every_option_is_read(tmp_path: Path) -> None:
    """And none is needed."""
    plain = read_address("s3://bucket")
    assert ("bucket", "", None, False) == (plain.bucket, plain.prefix, plain.endpoint, plain.is_virtual_hosted)
    (tmp_path / "ca.pem").touch()
    found = read_address(
        "s3://my.bucket/tick/wise/?endpoint=https%3A%2F%2Fs3.local%3A9000%2F&region=eu-central-1&style=virtual"
        f"&ca_file={tmp_path}/ca.pem&encryption=aws:kms&kms_key=alias/tick&public_endpoint=https://s3.example.com"
        "&delete=single"
    )
    assert ("my.bucket", "tick/wise", "https://s3.local:9000", "https://s3.example.com", "eu-central-1") == (
        found.bucket, found.prefix, found.endpoint, found.public_endpoint, found.region,
    )  # fmt: skip
    assert (True, "aws:kms", "alias/tick", True) == (
        found.is_virtual_hosted, found.encryption, found.kms_key, found.deletes_singly,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://", "must name a bucket"),
        ("s3://B", "must name a bucket"),
        ("s3://key:secret@bucket", "must name no credentials"),
        ("s3://bucket/../other", "the prefix"),
        ("s3://bucket?endpont=https://x", "unknown option 'endpont'; there are endpoint"),
        ("s3://bucket?region=a&region=b", "an option twice"),
        ("s3://bucket?endpoint=ftp://x", "endpoint of blobs_url must be like https://host:port"),
        ("s3://bucket?endpoint=https://a:b@x", "without credentials"),
        ("s3://bucket?style=other", "must be one of path, virtual"),
        ("s3://bucket?encryption=rot13", "must be one of AES256, aws:kms"),
        ("s3://bucket?kms_key=a", "needs encryption=aws:kms"),
        ("s3://bucket?ca_file=/nowhere/ca.pem", "there must be a file"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str, words: str) -> None:
    """With the option at fault and what is allowed."""
    with pytest.raises(Misconfigured, match=words):
        read_address(url)


def test_half_a_pair_of_credentials_is_refused() -> None:
    """The other half would come from somewhere else."""
    with pytest.raises(Misconfigured, match="go together"):
        open_blobs("s3://bucket", BlobAccess(access_key_id="key"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status 403: <Error><Code>AccessDenied</Code></Error>", "denies this"),
        ("<Code>NoSuchBucket</Code>", "is not there. Create it"),
        ("<Code>ExpiredToken</Code>", "have expired"),
        ("error sending request: connection refused", "could not be reached: error sending request"),
        ("Server returned non-2xx status code: 503 Service Unavailable: ", "503 SlowDown"),
    ],
)
def test_an_answer_becomes_a_sentence_that_says_what_to_do(text: str, words: str) -> None:
    """By the code in it, or by its status."""
    assert words in sentence_of(Exception(text), "the bucket 'b'")
