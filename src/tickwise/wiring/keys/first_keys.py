"""The first keys of an installation, and the files that hold them: 0600, in a folder of their own user.

    TICKWISE_BOOTSTRAP_KEY is set ──► it is let in, unless it was revoked; the one that it replaces is not
    `up` without one that is good ──► local.key, for the command line of this machine
    `api --serve jobs` without it, no key yet ──► on a terminal: shown once; else: first.key in the data folder

Invariant: no secret is written to a log. A terminal shows the secret; everywhere else a file is named.
A secret is on disk before it is good, so that a crash between leaves no key that nobody has.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tickwise import __version__
from tickwise.config import Settings
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.secrets import admin_key, admit_setting, check_strength, secret_digest
from tickwise.ports.identity import KeyOrigin, key_kept
from tickwise.ports.signals import Topic
from tickwise.wiring.runtime import Runtime

LOCAL_KEY: Final = "local.key"
FIRST_KEY: Final = "first.key"

logger = structlog.get_logger("tickwise.wiring")


class FirstKey(NamedTuple):
    """The key that was made because there was none."""

    secret: str
    file: Path | None
    """The file of the key; None: there is none, and the key must be shown."""


def check_bootstrap_key(settings: Settings) -> None:
    """Before anything is waited for. Raises `Misconfigured` for a key that can be guessed."""
    if settings.bootstrap_key is not None:
        check_strength(settings.bootstrap_key)


class ClientFacts(NamedTuple):
    """The facts that a running `up` tells the command line of its machine."""

    url: str
    key: str
    database_url: str
    ca_file: str | None = None
    """The certificate that the server has, if it speaks TLS: it alone is trusted."""
    server_name: str | None = None
    """The name in that certificate."""
    version: str = __version__
    build: str | None = None
    """The files of the program that it runs."""


class Admitted(NamedTuple):
    """The keys that admit a caller."""

    first: FirstKey | None = None
    setting: bool | None = None
    """True if the setting's key is good; None: there is no such key."""


async def let_in_up(runtime: Runtime) -> tuple[str, Admitted]:
    """The key of this machine's command line, and whether it is the installation's first or the setting's."""
    setting = await _let_in_setting(runtime)
    given = runtime.settings.bootstrap_key
    if setting and given is not None:
        return given, Admitted(setting=True)
    key, first = await _local_key(runtime)
    return key, Admitted(first, setting)


async def _local_key(runtime: Runtime) -> tuple[str, FirstKey | None]:
    settings, clock = runtime.settings, runtime.clock
    file = settings.data_dir / LOCAL_KEY
    with contextlib.suppress(OSError):
        kept = file.read_text().strip()
        if kept and await runtime.keys.find(secret_digest(kept.encode())) is not None:
            return kept, None
    secret = new_secret(clock)
    write_private(file, secret + "\n")
    if await runtime.keys.first(admin_key(clock, secret, KeyOrigin.FIRST)):
        return secret, FirstKey(secret, file)
    local = admin_key(clock, secret, KeyOrigin.LOCAL)
    await runtime.keys.add(local, audit=[key_kept(local)])
    return secret, None


async def let_in_api(runtime: Runtime) -> Admitted:
    """Admit the setting's key; without one, make the first key if the store has no key. Of an API in parts only `jobs`
    makes it: each of the others could be the first to start, and would keep the key where nobody looks for it."""
    setting = await _let_in_setting(runtime)
    makes = setting is None and "jobs" in runtime.settings.api_serve
    return Admitted(await _first_key(runtime) if makes else None, setting)


async def _first_key(runtime: Runtime) -> FirstKey | None:
    """The first key if this process has made it."""
    settings, clock = runtime.settings, runtime.clock
    if await runtime.keys.count():
        return None
    secret = new_secret(clock)
    key = admin_key(clock, secret, KeyOrigin.FIRST)
    if sys.stderr.isatty():
        return FirstKey(secret, None) if await runtime.keys.first(key) else None
    file = settings.data_dir / FIRST_KEY
    pending = file.with_name(f"{FIRST_KEY}.{key.key_id}")
    try:
        write_private(pending, secret + "\n")
    except OSError as failure:
        logger.error("first_key_unmade", file=str(file), reason=failure.strerror)
        return None
    try:
        is_first = await runtime.keys.first(key)
    except BaseException:
        # The key may be stored all the same; a lost key would be the only one for ever.
        pending.replace(file)
        raise
    if not is_first:
        pending.unlink()
        return None
    pending.replace(file)
    return FirstKey(secret, file)


async def _let_in_setting(runtime: Runtime) -> bool | None:
    """Admit the setting's key. True if it is good; None: there is no such key."""
    secret = runtime.settings.bootstrap_key
    if secret is None:
        return None
    replaced = await admit_setting(runtime.keys, runtime.clock, secret)
    if replaced:
        runtime.signals.send(Topic.KEYS, replaced)
    return replaced is not None


def banner(address: str, admitted: Admitted, link: str | None = None) -> None:
    """Print the facts for a person, once, on standard error beside the log; a secret only to a terminal. `link`: the
    address that opens the pages once."""
    lines = [f"Tickwise is up: {address}"]
    if link is not None:
        lines.append(f"  The pages: {link} (signs in once, within 5 minutes; another link: tickwise open)")
    first = admitted.first
    if first is not None:
        if sys.stderr.isatty():
            lines += ["", "  The first admin key. It is shown this once and stored only as a hash:", ""]
            lines += [f"    {first.secret}", ""]
        else:
            lines.append(f"  The first admin key is in {first.file}, which only this user can read.")
    if admitted.setting is True:
        lines.append("  TICKWISE_BOOTSTRAP_KEY is an admin key.")
    elif admitted.setting is False:
        lines.append("  The key in TICKWISE_BOOTSTRAP_KEY is revoked and opens nothing. Set a new one, or none.")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def client_file(settings: Settings, facts: ClientFacts) -> Iterator[None]:
    """The file in which the command line finds the server and its settings, and `doctor` the database; removed at an
    orderly end."""
    file = settings.data_dir / "client.json"
    told = [(each.name, each.value, each.origin) for each in settings.describe()]
    write_private(file, json.dumps({**facts._asdict(), "pid": os.getpid(), "settings": told}) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user can read; whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    partial.replace(file)
