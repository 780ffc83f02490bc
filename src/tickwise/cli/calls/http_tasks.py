"""From the options behind `--http` to an http task.

--method --query --header --data|--form      the request; its texts may have {{ payload.x }} in them
--signing-secret --oauth --cert --ca         how it proves itself, from files: a command line is no place for secrets
--connect-timeout --answer-timeout --answer-bytes
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from tickwise.cli import work
from tickwise.cli.session import Decorated, Session

_OPTIONS: Final[Mapping[str, str]] = {
    "method": "--method", "query": "--query", "headers": "--header", "data": "--data", "form": "--form",
    "expect": "--expect", "signing_secrets": "--signing-secret", "oauth": "--oauth", "cert": "--cert",
    "cert_key": "--cert-key", "ca": "--ca", "tls_min": "--tls-min", "connect_timeout": "--connect-timeout",
    "answer_timeout": "--answer-timeout", "answer_bytes": "--answer-bytes",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Http:
    """The options that say more of an http task."""

    method: str | None = None
    query: Sequence[str] = ()
    headers: Sequence[str] = ()
    data: str | None = None
    form: Sequence[str] = ()
    expect: str | None = None
    signing_secrets: Sequence[str] = ()
    oauth: str | None = None
    cert: str | None = None
    cert_key: str | None = None
    ca: str | None = None
    tls_min: str | None = None
    connect_timeout: str | None = None
    answer_timeout: str | None = None
    answer_bytes: int | None = None

    def given(self) -> list[str]:
        """The options that were given, as they are written."""
        return [option for name, option in _OPTIONS.items() if getattr(self, name)]


def taken(options: Mapping[str, Any]) -> Http:
    """The options of a command that has `http_options`."""
    return Http(**{name: options[name] for name in _OPTIONS})


def http_options(command: Decorated) -> Decorated:
    """`--method` and all that follows."""
    options: list[Callable[[Decorated], Decorated]] = [
        click.option("--method", metavar="METHOD", help="With --http: the method.  [GET; POST with --data or --form]"),
        click.option(
            "--query", multiple=True, metavar="NAME=VALUE",
            help="With --http: a parameter of the address; repeat it for more.",
        ),
        click.option(
            "--header", "headers", multiple=True, metavar="'NAME: VALUE'",
            help="With --http: a header; repeat it for more."
        ),
        click.option(
            "--data", metavar="TEXT",
            help="With --http: the body, or @FILE (@- is stdin). An object or a list in JSON is sent as JSON; "
            "{{ payload.NAME }} in its texts is a value of the payload.",
        ),
        click.option(
            "--form", multiple=True, metavar="NAME=VALUE", help="With --http: a field of a form; repeat it for more."
        ),
        click.option(
            "--expect", metavar="STATUSES",
            help="With --http: the statuses that count as success, such as 200,204.  [2xx]",
        ),
        click.option(
            "--signing-secret", "signing_secrets", multiple=True, metavar="FILE",
            help="With --http: sign as Standard Webhooks, with the secret (whsec_…) in this file; the newest first.",
        ),
        click.option(
            "--oauth", metavar="FILE",
            help="With --http: get a token first; a JSON file with token_url, client_id, client_secret, scope.",
        ),
        click.option("--cert", metavar="FILE", help="With --http: the certificate of the client, as PEM."),
        click.option("--cert-key", metavar="FILE", help="With --http: its private key, as PEM without a password."),
        click.option("--ca", metavar="FILE", help="With --http: the certificates to trust, as PEM.  [the system's]"),
        click.option("--tls-min", metavar="VERSION", help="With --http: the oldest TLS, 1.2 or 1.3.  [1.2]"),
        click.option(
            "--connect-timeout", metavar="DURATION",
            help="With --http: the longest wait for a connection.  [30s]",
        ),
        click.option(
            "--answer-timeout", metavar="DURATION",
            help="With --http: the longest wait until the answer begins.  [that of --timeout]"
        ),
        click.option(
            "--answer-bytes", type=click.IntRange(1), metavar="BYTES",
            help="With --http: the most bytes of the answer.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def http_task(session: Session, url: str, extra: Http) -> dict[str, Any]:
    """The task that sends one request. Raises `click.UsageError`."""
    if extra.data is not None and extra.form:
        raise click.UsageError("--data and --form exclude each other: a request has one body.")
    has_body = extra.data is not None or bool(extra.form)
    task: dict[str, Any] = {
        "kind": "http",
        "method": (extra.method or ("POST" if has_body else "GET")).upper(),
        "url": url,
    }
    work.blame(session, "/task/url", "--http", url)
    if extra.method:
        work.blame(session, "/task/method", "--method", extra.method)
    for field, option, pairs in (("query", "--query", extra.query), ("form", "--form", extra.form)):
        if pairs:
            task[field] = _parameters(option, pairs)
            work.blame(session, f"/task/{field}", option, pairs[-1])
    if extra.headers:
        task["headers"] = dict(_header(header) for header in extra.headers)
        work.blame(session, "/task/headers", "--header", extra.headers[-1])
    if extra.data is not None:
        task["body"] = _body(extra.data, task.get("headers", {}))
        work.blame(session, "/task/body", "--data", extra.data)
    if extra.expect is not None:
        statuses = [status.strip() for status in extra.expect.split(",")]
        task["expect"] = [int(status) if status.isdecimal() else status for status in statuses]
        work.blame(session, "/task/expect", "--expect", extra.expect)
    return task | _proofs(session, extra) | _limits(session, extra)


def changed_task(session: Session, before: Mapping[str, Any], url: str | None, extra: Http) -> dict[str, Any]:
    """The http task `before`, with another address and other values where the options say so; what they do not name
    stays. Another kind of task becomes an http task by an address. Raises `click.UsageError`."""
    is_http = before.get("kind") == "http"
    if url is None and not is_http:
        stray = extra.given()
        belong = "belongs" if len(stray) == 1 else "belong"
        raise click.UsageError(f"{' and '.join(stray)} {belong} to http tasks, and this job runs another one.")
    kept = dict(before) if is_http else {}
    said = http_task(session, kept.get("url", "") if url is None else url, extra)
    if is_http and not extra.method:
        del said["method"]
    for one, other in (("body", "form"), ("form", "body")):
        if one in said:
            kept.pop(other, None)
    return {**kept, **said}


def _proofs(session: Session, extra: Http) -> dict[str, Any]:
    """`sign`, `oauth` and `tls`. Files with secrets are named in messages, and their texts are not."""
    found: dict[str, Any] = {}
    if extra.signing_secrets:
        found["sign"] = {"secrets": [_read("--signing-secret", file).strip() for file in extra.signing_secrets]}
        work.blame(session, "/task/sign", "--signing-secret", extra.signing_secrets[0])
    if extra.oauth is not None:
        try:
            found["oauth"] = json.loads(_read("--oauth", extra.oauth))
        except ValueError:
            raise click.UsageError(f"--oauth {extra.oauth}: the file is not JSON.") from None
        work.blame(session, "/task/oauth", "--oauth", extra.oauth)
    tls: dict[str, str] = {}
    for name, option, file in (
        ("certificate", "--cert", extra.cert), ("key", "--cert-key", extra.cert_key), ("ca", "--ca", extra.ca),
    ):  # fmt: skip
        if file is not None:
            tls[name] = _read(option, file)
            work.blame(session, f"/task/tls/{name}", option, file)
    if extra.tls_min is not None:
        tls["minimum_version"] = extra.tls_min
        work.blame(session, "/task/tls/minimum_version", "--tls-min", extra.tls_min)
    return found | ({"tls": tls} if tls else {})


def _limits(session: Session, extra: Http) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, option, text in (
        ("connect_seconds", "--connect-timeout", extra.connect_timeout),
        ("first_byte_seconds", "--answer-timeout", extra.answer_timeout),
    ):
        if text is not None:
            found[field] = work.duration_seconds(option, text)
            work.blame(session, f"/task/{field}", option, text)
    if extra.answer_bytes is not None:
        found["answer_bytes"] = extra.answer_bytes
        work.blame(session, "/task/answer_bytes", "--answer-bytes", str(extra.answer_bytes))
    return found


def _body(data: str, headers: Mapping[str, str]) -> Any:
    """JSON if it is an object or a list, and no header says that it is something else; else the text."""
    text = _read("--data", data[1:]) if data.startswith("@") else data
    media_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "json")
    if "json" in media_type.lower() and text.lstrip()[:1] in ("{", "["):
        try:
            found = json.loads(text)
        except ValueError:
            return text
        return found
    return text


def _parameters(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """By name; a name that is given again has a list."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{option} {pair!r}: write NAME=VALUE")
        if name in found:
            found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), value]
        else:
            found[name] = value
    return found


def _header(text: str) -> tuple[str, str]:
    name, found, value = text.partition(":")
    if not found or not name.strip():
        raise click.UsageError(f"--header {text!r}: write Name: value")
    return name.strip(), value.strip()


def _read(option: str, file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{option} {file}: it is no UTF-8 text.") from None
    except OSError as error:
        raise click.UsageError(f"{option} {file}: it cannot be read: {error.strerror}.") from None
