"""The settings of an object store for scripts, outputs and artefacts. `Settings` has them as its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwise.config.facts import declared_field


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `BlobSettings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


@dataclass(frozen=True, kw_only=True)
class BlobSettings:
    """The way to a bucket, and what happens while it is away. A folder needs none of these."""

    blobs_access_key_id: str | None = _setting(
        None,
        "The access key of the bucket that `blobs_url` names, with `blobs_secret_access_key`. Unset: what AWS_… in the "
        "environment names, a web identity, the shared file of the AWS tools, or the role of the machine "
        "(`docs/how-to/output-in-s3.md`).",
        secret=True,
    )
    blobs_secret_access_key: str | None = _setting(None, "The secret of `blobs_access_key_id`.", secret=True)
    blobs_downloads: str = _setting(
        "api",
        "The way of an artefact to a caller that may read it: `api` (through the API), or `redirect` (the API answers "
        "307 with an address of the bucket that is signed for `blobs_download_seconds`; callers must reach the bucket, "
        "under `public_endpoint` of `blobs_url` if that is set). Blobs in a folder always go through the API.",
        choices=("api", "redirect"),
    )
    blobs_download_seconds: float = _setting(
        300.0, "The time for which the address of a redirected download is good, for anybody that has it.", least=1,
        most=604_800,
    )  # fmt: skip
    output_spool_bytes: int = _setting(
        1 << 30,
        "The most output that waits on the disk of an executor, in the folder `spool` of `data_dir`, while the object "
        "store of `blobs_url` is away or slow. Output beyond this is lost, and the log says how much. 0: none waits "
        "on a disk; a run waits at its end, as with a folder that is full.",
        least=0,
        most=1 << 44,
    )
