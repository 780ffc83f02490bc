"""The address of a bucket, read and checked: `s3://bucket/prefix?endpoint=…&region=…`.

Invariant: an option that is not known is refused, and no credential is accepted in an address: addresses are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tickwise.domain.errors import Misconfigured

OPTIONS: Final = ("endpoint", "public_endpoint", "region", "style", "ca_file", "encryption", "kms_key", "delete")
ENCRYPTIONS: Final = ("AES256", "aws:kms", "aws:kms:dsse")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._=@+-]{0,199}/)*[A-Za-z0-9_][A-Za-z0-9._=@+-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """A bucket and how to talk to it."""

    bucket: str
    prefix: str = ""
    """The folder in the bucket that holds all keys; empty: none."""
    endpoint: str | None = None
    """None: that of AWS for the region, or what AWS_ENDPOINT_URL_S3 says."""
    public_endpoint: str | None = None
    """The endpoint in signed addresses, for browsers that do not reach `endpoint`. None: `endpoint`."""
    region: str | None = None
    """None: AWS_REGION, else us-east-1."""
    is_virtual_hosted: bool = False
    """The bucket is part of the host name, not of the path."""
    ca_file: Path | None = None
    """The certificate of the authority that signed the endpoint's, PEM, beside those of the system."""
    encryption: str | None = None
    """The server-side encryption of each object. None: what the bucket does by default."""
    kms_key: str | None = None
    deletes_singly: bool = False
    """One request for each object: a store without DeleteObjects."""

    @property
    def where(self) -> str:
        """The bucket, for people."""
        return f"the bucket {self.bucket!r}" + (f" at {self.endpoint}" if self.endpoint else "")


def read_address(url: str) -> BucketAddress:
    """Raises `Misconfigured` with the option at fault and what is allowed."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise Misconfigured(
            "blobs_url must name no credentials: set blobs_access_key_id and blobs_secret_access_key, or AWS_…"
        )
    bucket, prefix = parts.netloc, unquote(parts.path).strip("/")
    if not _BUCKET.fullmatch(bucket):
        raise Misconfigured(f"blobs_url must name a bucket: `s3://bucket/prefix`, and {bucket!r} is no name of one")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise Misconfigured(f"the prefix {prefix[:100]!r} of blobs_url must be names of A-Z a-z 0-9 . _ = @ + - and /")
    options = _options(parts.query)
    encryption = _one_of(options, "encryption", ENCRYPTIONS)
    kms_key = options.get("kms_key")
    if kms_key is not None and encryption not in ("aws:kms", "aws:kms:dsse"):
        raise Misconfigured("kms_key of blobs_url needs encryption=aws:kms or aws:kms:dsse")
    return BucketAddress(
        bucket=bucket,
        prefix=prefix,
        endpoint=_endpoint(options, "endpoint"),
        public_endpoint=_endpoint(options, "public_endpoint"),
        region=options.get("region"),
        is_virtual_hosted=_one_of(options, "style", ("path", "virtual")) == "virtual",
        ca_file=_file(options, "ca_file"),
        encryption=encryption,
        kms_key=kms_key,
        deletes_singly=_one_of(options, "delete", ("batch", "single")) == "single",
    )


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise Misconfigured("blobs_url has options that are not `name=value` joined by `&`") from None
    options = dict(pairs)
    if len(options) != len(pairs):
        raise Misconfigured("blobs_url names an option twice")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise Misconfigured(f"blobs_url has an unknown option {unknown[0][:60]!r}; there are {', '.join(OPTIONS)}")
    return {name: value for name, value in options.items() if value}


def _one_of(options: dict[str, str], name: str, allowed: tuple[str, ...]) -> str | None:
    value = options.get(name)
    if value is not None and value not in allowed:
        raise Misconfigured(f"{name} of blobs_url is {value[:60]!r}, and must be one of {', '.join(allowed)}")
    return value


def _endpoint(options: dict[str, str], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise Misconfigured(f"{name} of blobs_url must be like https://host:port, without credentials")
    return value.rstrip("/")


def _file(options: dict[str, str], name: str) -> Path | None:
    value = options.get(name)
    if value is None:
        return None
    path = Path(value)
    if not path.is_absolute() or not path.is_file():
        raise Misconfigured(f"{name} of blobs_url is {value[:200]!r}: there must be a file, named by its whole path")
    return path
