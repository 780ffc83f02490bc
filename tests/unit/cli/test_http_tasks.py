"""The options behind `--http`: from what a person writes to the task."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support.kinds import builtin_kinds
from tickwise.cli.calls.http_tasks import Http, changed_task, http_task
from tickwise.cli.session import Session


@pytest.fixture
def session() -> Session:
    return Session(environ={})


def test_an_http_task_takes_its_options(session: Session) -> None:
    """Headers keep colons in their values; statuses may be classes."""
    extra = Http(method="post", headers=("A: b:c", "D:e"), data="x", expect="200, 2xx")
    assert {
        "kind": "http", "method": "POST", "url": "http://x/", "headers": {"A": "b:c", "D": "e"}, "body": "x",
        "expect": [200, "2xx"],
    } == http_task(session, "http://x/", extra)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "headers", "body"),
    [
        ('{"a": "{{ payload.a }}"}', (), {"a": "{{ payload.a }}"}),
        ("[1, 2]", (), [1, 2]),
        ('{"a": 1}', ("Content-Type: application/vnd.api+json",), {"a": 1}),
        ('{"a": 1}', ("Content-Type: text/plain",), '{"a": 1}'),
        ("{broken", (), "{broken"),
        ("7", (), "7"),
        ("", (), ""),
    ],
)
def test_data_is_json_if_it_is_an_object_or_a_list(
    session: Session, data: str, headers: tuple[str, ...], body: Any
) -> None:
    """And no header says that it is something else. A body makes the method POST."""
    task = http_task(session, "http://x/", Http(data=data, headers=headers))
    assert (body, "POST") == (task["body"], task["method"])


def test_data_comes_from_a_file_or_from_stdin(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--payload` does."""
    file = tmp_path / "body.json"
    file.write_text('{"a": 1}')
    assert {"a": 1} == http_task(session, "http://x/", Http(data=f"@{file}"))["body"]
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin"))
    assert "from stdin" == http_task(session, "http://x/", Http(data="@-"))["body"]
    with pytest.raises(click.UsageError, match="--data .*missing"):
        http_task(session, "http://x/", Http(data=f"@{tmp_path}/missing"))


def test_parameters_and_fields_come_by_name(session: Session) -> None:
    """A name that is given again has a list; a value may have an equals sign."""
    task = http_task(session, "http://x/", Http(query=("a=1", "a=2", "b={{ run.id }}"), form=("c=d=e", "f=")))
    assert {"a": ["1", "2"], "b": "{{ run.id }}"} == task["query"]
    assert {"c": "d=e", "f": ""} == task["form"]
    with pytest.raises(click.UsageError, match="exclude each other"):
        http_task(session, "http://x/", Http(data="x", form=("a=b",)))
    with pytest.raises(click.UsageError, match="NAME=VALUE"):
        http_task(session, "http://x/", Http(query=("a",)))


def test_secrets_come_from_files(session: Session, tmp_path: Path) -> None:
    """So none is in the list of processes. The task is one that the server takes."""
    for name in ("new", "old"):
        (tmp_path / name).write_text("whsec_" + "A" * 43 + "=\n")
    said = {"token_url": "https://x/token", "client_id": "me", "client_secret": "s"}
    (tmp_path / "oauth.json").write_text(json.dumps(said))
    (tmp_path / "ca.pem").write_text("PEM")
    extra = Http(
        signing_secrets=(str(tmp_path / "new"), str(tmp_path / "old")), oauth=str(tmp_path / "oauth.json"),
        ca=str(tmp_path / "ca.pem"), tls_min="1.3", connect_timeout="5s", answer_timeout="1m", answer_bytes=1_000,
    )  # fmt: skip
    task = http_task(session, "https://x/", extra)
    assert ["whsec_" + "A" * 43 + "="] * 2 == task["sign"]["secrets"]
    assert (said, {"ca": "PEM", "minimum_version": "1.3"}) == (task["oauth"], task["tls"])
    assert (5.0, 60.0, 1_000) == (task["connect_seconds"], task["first_byte_seconds"], task["answer_bytes"])
    (kind,) = [each for each in builtin_kinds() if each.name == "http"]
    task["tls"] = {"minimum_version": "1.3"}
    assert task.keys() <= kind.check(task).keys()
    (tmp_path / "oauth.json").write_text("not json with s3cr3t")
    with pytest.raises(click.UsageError) as refused:
        http_task(session, "https://x/", extra)
    assert "s3cr3t" not in str(refused.value)


def test_an_edit_of_a_request_keeps_what_it_does_not_name(session: Session) -> None:
    """Another address alone: method, headers and body stay. A form takes the place of a body."""
    before = {"kind": "http", "method": "PUT", "url": "http://a/", "headers": {"X": "***"}, "body": {"a": 1}}
    assert {**before, "url": "http://b/"} == changed_task(session, before, "http://b/", Http())
    assert {**before, "method": "GET"} == changed_task(session, before, None, Http(method="get"))
    formed = changed_task(session, before, None, Http(form=("a=b",)))
    assert ({"a": "b"}, "PUT", False) == (formed["form"], formed["method"], "body" in formed)


def test_another_task_becomes_a_request_by_an_address_alone(session: Session) -> None:
    """A method says nothing of a command."""
    command = {"kind": "shell", "command": "date"}
    assert http_task(session, "http://b/", Http()) == changed_task(session, command, "http://b/", Http())
    with pytest.raises(click.UsageError, match="--method belongs to http tasks"):
        changed_task(session, command, None, Http(method="PUT"))
