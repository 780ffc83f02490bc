"""An `up` that runs earlier code than this installation: `up --background` lets it end, and starts the present one.

version of the running one is older                               ──► restarted
same installation, and its files are others than at its start     ──► restarted: a checkout that was pulled
another installation of the same version, or a newer one          ──► left alone

The next one has the settings of the one before, and looks for the modules of functions where that one did. If these
cannot be loaded any more, the one that runs is left alone. What cannot be handed on, such as a secret, is told, and so
is the call whose settings are not those of the one that runs.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tickwise import __version__
from tickwise.cli.connection import Local

if TYPE_CHECKING:
    import psutil

    from tickwise.config import Settings

DEFAULT: Final = "default"
"""The origin of a setting that nobody gave."""
PYTHONPATH: Final = "PYTHONPATH"
BY_OTHER_WAYS: Final = frozenset({"data_dir", "database_url", "port", "host"})
"""Settings that a restart hands on by itself."""


def outdated(local: Local, installation: Path | None, here: Path, build: str) -> str | None:
    """The sentence about an `up` that runs earlier code; None: it shall go on. `installation` is the one that
    the `up` is of, `here` this one, `build` its files."""
    from packaging.version import InvalidVersion, Version

    is_ours = installation == here
    if local.version is None:
        return "It was started by a release before this one." if is_ours else None
    try:
        theirs, ours = Version(local.version), Version(__version__)
    except InvalidVersion:
        return None
    if theirs < ours:
        return f"It runs Tickwise {theirs}, and this is {ours}."
    if theirs == ours and is_ours and local.build not in (None, build):
        return "It was started with earlier files of this installation."
    return None


def options_again(local: Local, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the next `up`: those that are given, else those that the running one was given."""
    place = urlsplit(local.url)
    if local.settings is None:
        # A release that did not tell whether it was given a port: it stays where its clients look for it.
        before: dict[str, Any] = {"--port": place.port}
    else:
        said = {name: value for name, value, origin in local.settings if origin.startswith("--")}
        before = {
            "--port": place.port if "port" in said else None, "--host": place.hostname if "host" in said else None,
            "--queues": said.get("queues"),
        }  # fmt: skip
    return {option: before.get(option) if value is None else value for option, value in given.items()}


def database_again(local: Local, given: str | None, configured: str | None, data_dir: Path) -> str | None:
    """The address to hand to the next `up`: the one that is given; else that of the running one, unless the settings
    name one (`configured`) or the running one had an embedded database."""
    if local.settings is None:
        is_embedded = f"host={data_dir}/" in unquote(local.database_url or "")
    else:
        is_embedded = all(origin == "default" for name, _, origin in local.settings if name == "database_url")
    return given if given is not None or configured is not None or is_embedded else local.database_url


class SettingsAgain(NamedTuple):
    """The settings of the one before that this call does not give."""

    variables: Mapping[str, str]
    """For the environment of the next one."""
    lost: Sequence[str]
    """The names of those that cannot be handed on: secrets, and those of files that this call does not read."""


def settings_again(local: Local, settings: Settings) -> SettingsAgain:
    """The settings that the next `up` keeps from the running one. `settings`: those of this call."""
    from tickwise.config import SETTINGS
    from tickwise.config.described import UNSET

    variables, lost = dict[str, str](), list[str]()
    for name, value, origin in local.settings or ():
        given_again = origin == DEFAULT or value == UNSET or origin.startswith("--") or name in settings.origins
        if given_again or name in BY_OTHER_WAYS or name not in SETTINGS:
            continue
        setting = SETTINGS[name]
        if origin == setting.variable and not setting.facts.secret:
            variables[setting.variable] = value
        else:
            lost.append(name)
    return SettingsAgain(variables, lost)


def not_given_again(local: Local, options: Mapping[str, Any], settings: Settings) -> list[str]:
    """The options and settings of the one that runs that a call with these does not give."""
    before = options_again(local, options)
    kept = [
        f"{option} {value}"
        for option, value in before.items()
        if options[option] is None and value is not None and option.removeprefix("--") not in settings.origins
    ]
    again = settings_again(local, settings)
    return [*kept, *again.variables, *again.lost]


class PlaceOfFunctions(NamedTuple):
    """The place in which the modules of functions are looked for."""

    folder: Path
    variables: Mapping[str, str]
    """PYTHONPATH, if the one before had one and this call has none."""


def place_again(process: psutil.Process, environ: Mapping[str, str]) -> PlaceOfFunctions | None:
    """The place of the one that runs; None: its folder cannot be told, or is gone."""
    import psutil

    try:
        folder, variables = Path(process.cwd()), process.environ()
    except (psutil.Error, OSError):
        return None
    path = variables.get(PYTHONPATH) if not environ.get(PYTHONPATH) else None
    return PlaceOfFunctions(folder, {PYTHONPATH: path} if path else {}) if folder.is_dir() else None


def start_again(
    options: Mapping[str, Any], variables: Mapping[str, str], folder: Path, data_dir: Path, *, has_database: bool
) -> str:
    """The command that starts the next `up` by hand, as this call would have started it. A database may be a secret."""
    words = [sys.executable, "-m", "tickwise", "up", "--background", "--data-dir", str(data_dir)]
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    assigned = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    assigned += ["TICKWISE_DATABASE_URL=…"] if has_database else []
    return " ".join([f"cd {shlex.quote(str(folder))} &&", *assigned, shlex.join(words)])


def settings_apart(local: Local, settings: Settings) -> str | None:
    """The sentence about settings of this call that the running `up` does not have; None: it has all of them. Secrets
    are compared as they are shown."""
    there = {name: value for name, value, _ in local.settings or ()}
    apart = [
        f"{each.name} is {there[each.name]} there and {each.value} here"
        for each in settings.describe()
        if each.origin != DEFAULT and each.name != "data_dir" and there.get(each.name, each.value) != each.value
    ]
    return f"It has other settings than this call: {'; '.join(apart)}." if apart else None
