"""The credentials for a bucket, from the first place that has some.

    blobs_access_key_id  →  AWS_ACCESS_KEY_ID  →  a web identity or a container's role (AWS_…)  →  the shared file  →
    the role of the machine

obstore knows all of these but the shared file of the AWS tools. That one is read here, and again after
`READ_AGAIN_SECONDS`: keys can be replaced while Tickwise runs.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tickwise.domain.errors import Misconfigured

READ_AGAIN_SECONDS: Final = 300.0
_EARLIER: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def file_credentials(
    environment: Mapping[str, str], now: Callable[[], float] | None
) -> Callable[[], dict[str, Any]] | None:
    """A provider that reads the shared file. None: an earlier place has credentials, or there is no such file. Raises
    `Misconfigured` if the file or the profile was named and is not there."""
    if any(environment.get(name) for name in _EARLIER):
        return None
    named = environment.get("AWS_SHARED_CREDENTIALS_FILE")
    profile = environment.get("AWS_PROFILE") or "default"
    place = Path(named) if named else Path(environment.get("HOME") or os.path.expanduser("~")) / ".aws" / "credentials"
    if not named and "AWS_PROFILE" not in environment and not place.is_file():
        return None
    _read(place, profile)  # what is wrong is said at the start

    def provide() -> dict[str, Any]:
        expires = None if now is None else datetime.fromtimestamp(now() + READ_AGAIN_SECONDS, UTC)
        return {**_read(place, profile), "expires_at": expires}

    return provide


def _read(place: Path, profile: str) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with place.open() as file:
            parser.read_file(file)
        section = parser[profile]
        return {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section["aws_secret_access_key"],
            "token": section.get("aws_session_token"),
        }
    except OSError as error:
        raise Misconfigured(f"the credentials of the bucket cannot be read from {place}: {error.strerror}") from None
    except KeyError as missing:
        raise Misconfigured(
            f"{place} has no {missing.args[0]} for the profile {profile!r}; set AWS_PROFILE, or mend the file"
        ) from None
    except configparser.Error:
        raise Misconfigured(f"{place} is no file of credentials as the AWS tools read it") from None
