"""The files of settings, and a guess at what a misspelled name was meant to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.domain.errors import Misconfigured

PREFIX: Final = "TICKWISE_"
LOCATION: Final = "TICKWISE_CONFIG_LOCATION"
FILES: Final = ("service.toml", "secrets.toml")


class SettingSource(NamedTuple):
    """A value as somebody wrote it, and where."""

    place: str
    value: Any


def setting_files(environ: Mapping[str, str]) -> list[Path]:
    """The files in the folder that the environment names. Raises `Misconfigured` for a folder without any."""
    location = environ.get(LOCATION)
    if not location:
        return []
    folder = Path(location).expanduser()
    if not folder.is_dir():
        raise Misconfigured(f"{LOCATION} is {location}, and must be a folder that holds {' and '.join(FILES)}.")
    files = [folder / name for name in FILES if (folder / name).exists()]
    if not files:
        raise Misconfigured(f"{LOCATION} is {location}, and that folder holds neither {' nor '.join(FILES)}.")
    return files


def values_of_file(file: Path, known: Sequence[str]) -> dict[str, SettingSource]:
    """The values of one file by setting name. Raises `Misconfigured` for a key that is none of `known`."""
    import tomllib

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file} is not valid TOML: {error}.") from None
    for key in table:
        if key not in known:
            raise Misconfigured(f"{file}: there is no setting {key!r}.{nearest(key, known)}")
    return {key: SettingSource(str(file), value) for key, value in table.items()}


def nearest(name: str, known: Sequence[str]) -> str:
    """A sentence with the name that was probably meant; empty if none is close."""
    import difflib

    prefix = PREFIX if name.startswith(PREFIX) else ""
    # Compared without the prefix, which would make every two variables look alike.
    bare = {each.removeprefix(prefix).lower(): each for each in known}
    close = difflib.get_close_matches(name.removeprefix(prefix).lower(), bare, n=1, cutoff=0.7)
    return f" Did you mean {bare[close[0]]}?" if close else ""
