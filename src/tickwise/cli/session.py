"""The state of one invocation: its output format, its server, and its options.

Everything that takes time to import is imported where it is used: this module is on the path of `tickwise --help`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tickwise.cli.arguments import blot_out
from tickwise.cli.failures import Blame, safe_lines

if TYPE_CHECKING:
    from datetime import tzinfo

    from tickwise.cli.connection import ServerTarget
    from tickwise.cli.sign_ins import SignIns
    from tickwise.sdk.client import Client, ServerTrust

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
AnyClient = TypeVar("AnyClient", bound="Client")

SHORT_ID: Final = 8
"""Characters of a short id. Among a million of the last day, one of two has a namesake once in 4,000 times."""
USUAL_WIDTH: Final = 80
"""Of a terminal that does not say how wide it is."""
EVERYTHING: Final = "*"
"""The value of `--json` alone."""
_FIELDS = re.compile(r"[A-Za-z_][\w.]*(,[A-Za-z_][\w.]*)*", re.ASCII)


@dataclass
class Session:
    """Filled by the common options, wherever on the line they stand."""

    url: str | None = None
    key: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    namespace: str | None = None
    data_dir: str | None = None
    as_json: bool = False
    json_fields: Sequence[str] = ()
    """Of JSON objects these members alone, `task.kind` for one of an object; empty: all of them."""
    columns: Sequence[str] = ()
    """The columns of tables; empty: the usual ones."""
    is_wide: bool = False
    """Tables show whole ids and times, all columns, and cut nothing off."""
    view_width: int | None = None
    """The cells of a line, where a view has the terminal."""
    utc: bool = False
    zone_name: str | None = None
    blame: Blame = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def client(self) -> Client:
        """A client for the server that was named or found."""
        from tickwise.sdk.client import Client

        return self.client_as(Client)

    def client_as(self, kind: type[AnyClient]) -> AnyClient:
        """A client of this kind for that server."""
        from tickwise.sdk.client import travels_in_clear

        target = self.target
        if (
            (target.key or target.is_signed_in or target.is_federated)
            and not self.insecure
            and travels_in_clear(target.url)
        ):
            self.note(
                f"Your key travels to {target.url} unencrypted, and can be read on its way: use https, or say "
                "--insecure where the way is private."
            )
        return kind(target.url, self.credential, namespace=target.namespace, trust=self.trust)

    @cached_property
    def unbound_client(self) -> Client:
        """A client with the same credential whose requests name no namespace."""
        from tickwise.sdk.client import Client

        return Client(self.target.url, self.credential, trust=self.trust)

    @cached_property
    def credential(self) -> str | Callable[[], str] | None:
        """The key of the requests; of a sign-in, the function that gives the access token of the moment."""
        from functools import partial

        target = self.target
        if target.is_federated:
            from tickwise.sdk.client import FederatedKey

            return FederatedKey(target.url, self.environ, trust=self.trust)
        return partial(self.sign_ins.access_token, target.url, self.trust) if target.is_signed_in else target.key

    @cached_property
    def trust(self) -> ServerTrust:
        """The certificates that are taken for the server's. Keys may travel unencrypted: `client` says so before."""
        from tickwise.sdk.client import ServerTrust

        return ServerTrust(self.target.ca_file, self.target.server_name, insecure=True)

    def keyless_client(self) -> Client:
        """A client that shows no key: for signing in and out."""
        from tickwise.sdk.client import Client

        return Client(self.target.url, None, trust=self.trust)

    def guard_password(self) -> None:
        """Before a password is asked for. Raises `CommandFailure` if it would leave this machine unencrypted."""
        from tickwise.cli.failures import CommandFailure, Exit
        from tickwise.sdk.client import travels_in_clear

        if not self.insecure and travels_in_clear(self.target.url):
            raise CommandFailure(
                f"a password is not sent to {self.target.url}: it would travel unencrypted, and could be read.",
                Exit.REFUSED,
                advice="Use an address that begins with https://, or say --insecure where the way is private.",
            )

    @cached_property
    def target(self) -> ServerTarget:
        """The server that was named or found."""
        from tickwise.cli.connection import find

        return find(
            url=self.url, key=self.key, namespace=self.namespace, data_dir=self.data_dir, environ=self.environ,
            sign_ins=self.sign_ins, ca_file=self.ca_file,
        )  # fmt: skip

    @cached_property
    def sign_ins(self) -> SignIns:
        """The sign-ins of this user."""
        from tickwise.cli.sign_ins import SignIns

        return SignIns(self.environ)

    def close(self) -> None:
        """Give back the connections, if any were made."""
        for name in ("client", "unbound_client"):
            client: Client | None = self.__dict__.get(name)
            if client is not None:
                client.close()

    @cached_property
    def zone(self) -> tzinfo | None:
        """The viewer's zone; None is this machine's, which follows TZ."""
        if self.utc:
            from datetime import UTC

            return UTC
        if self.zone_name is None:
            return None
        from tickwise.cli import moments

        try:
            return moments.zone_named(self.zone_name)
        except moments.UnreadableTime as error:
            raise click.UsageError(f"--timezone: {error}") from None

    def say(self, text: str) -> None:
        """A message for a person; on stderr when stdout carries JSON."""
        click.echo(safe_lines(text), err=self.as_json)

    def note(self, text: str) -> None:
        """A remark beside the result, always on stderr."""
        click.echo(safe_lines(text), err=True)

    def show_json(self, value: Any) -> None:
        """The one JSON value of the command, with the members that were asked for. Raises `click.UsageError` for one
        that it does not have."""
        import json

        if self.json_fields:
            from tickwise.cli.terminal.members import with_members

            value = with_members(value, self.json_fields)
        click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))

    @property
    def width(self) -> int | None:
        """The cells of a line of stdout; None: any number, as in a pipe. `COLUMNS` says it anywhere."""
        if self.view_width is not None:
            return self.view_width
        if self.is_wide:
            return None
        said = self.environ.get("COLUMNS", "")
        if said.isdecimal() and int(said) > 0:
            return int(said)
        if not sys.stdout.isatty():
            return None
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_WIDTH
        except OSError:
            return USUAL_WIDTH

    def short(self, identifier: Any) -> str:
        """An id in a table: its random end where a line has a width, else all of it."""
        text = str(identifier)
        return text if self.width is None else text[-SHORT_ID:]

    def age(self, text: str | None, *, seen_at: float | None = None) -> str:
        """A time of the API in a table: `16s ago` where a line has a width, else as `time` says it."""
        from tickwise.cli import moments

        at = moments.instant(text)
        if at is None:
            return ""
        return self.time(text, seen_at=seen_at) if self.width is None else moments.age(at, seen_at or moments.now())

    def span(self, seconds: float) -> str:
        """A length of time in a table."""
        from tickwise.cli import moments

        return moments.length(seconds) if self.width is None else moments.span(seconds)

    def colour(self, stream: Any) -> bool:
        """Check whether to write colours to the stream: on a terminal, unless NO_COLOR forbids it."""
        return not self.environ.get("NO_COLOR") and stream.isatty()

    def time(self, text: str | None, *, seen_at: float | None = None) -> str:
        """A time of the API as the viewer reads it: absolute, and how far away."""
        from tickwise.cli import moments

        at = moments.instant(text)
        if at is None:
            return ""
        seen_at = moments.now() if seen_at is None else seen_at
        return f"{moments.absolute(at, self.zone)} ({moments.relative(at, seen_at)})"


def _remember(attribute: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """An option's value goes to the session, so that it may stand before or after the command's name."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            setattr(context.ensure_object(Session), attribute, value)
            if attribute == "key":
                blot_out(value)

    return keep


def _remember_json(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    session = context.ensure_object(Session)
    session.as_json = True
    if value != EVERYTHING:
        session.json_fields = _names("--json", value)


def json_option(command: Decorated) -> Decorated:
    """`--json [FIELD,…]`, for commands that talk to no server."""
    return click.option(
        "--json", is_flag=False, flag_value=EVERYTHING, metavar="[FIELD,…]", expose_value=False,
        callback=_remember_json, help="Write one JSON value to stdout; with FIELDs, only these of each object.",
    )(command)  # fmt: skip


def keep_quiet() -> None:
    """Let the parts that a command starts for a moment write nothing but errors, and those beside the result."""
    from tickwise.observability import logs

    logs.configure("error")


def with_json_fields(words: Sequence[str]) -> list[str]:
    """The words of a command line, `--json` in the form that the parser knows. What follows it is its fields if it has
    a comma, or if the command is a list, which takes no argument; `--json=name` is one field anywhere."""
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*found, word, *rest]
        if word == "--json":
            is_said = bool(rest) and _FIELDS.fullmatch(rest[0]) is not None and ("," in rest[0] or "list" in found)
            word = f"--json={rest.pop(0) if is_said else EVERYTHING}"
        found.append(word)
    return found


def _names(option: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.UsageError(f"{option} {text!r}: write names with commas between them")
    return names


def data_dir_option(command: Decorated) -> Decorated:
    """`--data-dir`: which local `up` is meant."""
    return click.option(
        "--data-dir", metavar="DIR", expose_value=False, callback=_remember("data_dir"),
        help="The data folder of a local `tickwise up`.",
    )(command)  # fmt: skip


OLD_KEY: Final = "old_key"


def server_options(command: Decorated) -> Decorated:
    """The options of every command that talks to a server: its address, its trust, the key, the namespace."""
    for option in (
        click.option(
            "--namespace", metavar="NAME", expose_value=False, callback=_remember("namespace"),
            help="The namespace that the command is about.  [TICKWISE_NAMESPACE, or the first of your key or roles]",
        ),
        click.option(
            "--insecure", is_flag=True, expose_value=False, callback=_remember("insecure"),
            help="Send keys and passwords to other machines even without TLS, and do not warn.",
        ),
        click.option(
            "--ca-file", metavar="FILE", expose_value=False, callback=_remember("ca_file"),
            help="The CA certificates (PEM) to trust for it.  [TICKWISE_CA_FILE, or those of the machine]",
        ),
        click.option(
            "--api-key", "key", metavar="KEY", expose_value=False, callback=_remember("key"),
            help="Your API key for it.  [TICKWISE_API_KEY, your sign-in, or that of a local `up`]",
        ),
        click.option(
            "--url", metavar="URL", expose_value=False, callback=_remember("url"),
            help="The server's address.  [TICKWISE_URL, that of a local `up`, or of your last sign-in]",
        ),
    ):  # fmt: skip
        command = option(command)
    # Its name before `--key` of `run` became the key of the job, which has it no more (`run.py`).
    command = click.option(
        "--key", OLD_KEY, metavar="KEY", hidden=True, expose_value=False, callback=_remember("key"),
        help="The same as --api-key.",
    )(command)  # fmt: skip
    return json_option(data_dir_option(command))


def view_options(command: Decorated) -> Decorated:
    """Add `--utc` and `--timezone`, and the options of every view: for commands that show times."""
    command = click.option(
        "--timezone", metavar="ZONE", expose_value=False, callback=_remember("zone_name"),
        help="Show times in this zone.  [this machine's, or TZ]",
    )(command)  # fmt: skip
    command = utc_option(command)
    return server_options(command)


def list_options(command: Decorated) -> Decorated:
    """`-o wide` and `--columns`, and the options of every view: for commands that show a table."""
    for option in (
        click.option(
            "--columns", metavar="NAME,…", expose_value=False, callback=_remember_columns,
            help="Show these columns, in this order, such as name,status.",
        ),
        click.option(
            "--output", "-o", type=click.Choice(["wide"]), expose_value=False, callback=_remember_wide,
            help="wide: whole ids and times, all columns, nothing shortened.",
        ),
    ):  # fmt: skip
        command = option(command)
    return view_options(command)


def _remember_columns(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        names = [name.lower().replace("-", "_").replace(" ", "_") for name in _names("--columns", value)]
        context.ensure_object(Session).columns = names


def _remember_wide(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Session).is_wide = True


def utc_option(command: Decorated) -> Decorated:
    """`--utc`: show times in UTC."""
    return click.option(
        "--utc", is_flag=True, expose_value=False, callback=_remember("utc"), help="Show times in UTC."
    )(command)
