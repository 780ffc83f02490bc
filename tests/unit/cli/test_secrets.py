"""`tickwise secrets` from a terminal: a value is typed, piped or in a file, and never an argument."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

VALUE = "correct-horse"
ROW: dict[str, Any] = {
    "name": "db-password", "version": 1, "created_at": "2026-11-27T02:00:00Z", "created_by": "ada",
    "changed_at": "2026-11-27T02:00:00Z", "changed_by": "ada \x1b[31m", "sealed_under": "1a2b3c4d5e6f7081",
    "readable": True,
}  # fmt: skip
USES: dict[str, Any] = {
    "jobs": [{"job_id": "01a3185c-5000-834e-94b6-daa72b1d976d", "name": "nightly \x1b[31m", "key": None}],
    "tasks": [{"taskId": "shared", "version": 2}], "hidden": 3, "more": True,
}  # fmt: skip
IN_USE: dict[str, Any] = {
    "status": 409, "code": "secret_in_use", "detail": "the secret 'db-password' is used by 1 job; runs fail. Take it",
}  # fmt: skip
DETAILS = {**ROW, "versions": [{"version": 1, "set_at": "2026-11-27T02:00:00Z", "set_by": "ada"}]}


class Keyboard(io.StringIO):
    """A person at a terminal."""

    def isatty(self) -> bool:
        """True."""
        return True


def called(*words: str, url: str) -> int:
    """The exit code of a command."""
    return int(main(["secrets", *words, "--url", url, "--api-key", "k"]))


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """What stdin gives."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"correct-horse\n", {"value": "correct-horse"}),
        (b"correct-horse\r\n", {"value": "correct-horse"}),
        (b"a\nb\n\n", {"value": "a\nb\n"}),
        (b"x", {"value": "x"}),
        (b"\xff\x00", {"value": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"}),
    ],
)
def test_a_piped_value_is_sent_without_its_last_line_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes, body: Any
) -> None:
    """Bytes that are no text go as base64; nothing of the value is shown."""
    piped(monkeypatch, content)
    with serving(Reply(201, DETAILS)) as server:
        assert 0 == called("set", "db-password", url=server.url)
    [asked] = server.received
    assert ("PUT", "/api/v1/secrets/db-password", body) == (asked.method, asked.path, asked.body)
    told = capsys.readouterr()
    assert "version 1. In a task: secret:db-password" in told.out
    assert VALUE not in told.out + told.err


def test_a_file_is_sent_byte_for_byte(tmp_path: Path) -> None:
    """Its last line end too."""
    file = tmp_path / "key.pem"
    file.write_bytes(b"-----BEGIN\nabc\n")
    with serving(Reply(201, DETAILS)) as server:
        assert 0 == called("set", "db-password", "--file", str(file), url=server.url)
        assert 2 == called("set", "db-password", "--file", str(tmp_path / "missing"), url=server.url)
    assert [{"value": "-----BEGIN\nabc\n"}] == [each.body for each in server.received]


@pytest.mark.parametrize(
    "words",
    [
        ("db-password", VALUE), ("db-password", VALUE, "more"), (f"db-password={VALUE}",),
        ("db-password", "--value", VALUE), ("db-password", f"--value={VALUE}"),
    ],
)  # fmt: skip
def test_a_value_in_the_arguments_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """With the ways there are; nothing is sent, and it is not repeated."""
    with serving() as server:
        assert 2 == called("set", *words, url=server.url)
    assert [] == server.received
    told = capsys.readouterr()
    assert "never an argument" in told.err
    assert VALUE not in told.out + told.err


def test_a_value_in_the_arguments_is_written_over_there() -> None:
    """Other users of the machine can read it only for a moment."""
    source = (
        "import sys, time\nfrom tickwise.cli.main import main\n"
        "main(['secrets', 'set', 'db', sys.argv[1]])\nprint('refused', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source, VALUE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert b"refused\n" == process.stdout.readline()
        assert VALUE.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.communicate()


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * ((1 << 20) + 1), b"x" * (1 << 21)])
def test_a_value_of_no_or_too_many_bytes_is_not_sent(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """The bound is that of the server."""
    piped(monkeypatch, content)
    with serving() as server:
        assert 2 == called("set", "db", url=server.url)
    assert [] == server.received


def test_a_value_is_not_sent_in_clear_to_another_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not even asked for."""
    piped(monkeypatch, VALUE.encode())
    assert 0 != called("set", "db", url="http://192.0.2.1:8470")
    assert "https://" in capsys.readouterr().err
    assert VALUE.encode() == sys.stdin.buffer.read()


def test_secrets_are_rows_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    """A lost key is told; hostile text does nothing to the terminal."""
    rows = [{**ROW, "jobs": 12}, {**ROW, "name": "old", "readable": False, "jobs": 0}]
    with serving(Reply(200, rows), Reply(200, DETAILS), Reply(200, USES)) as server:
        assert 0 == called("list", url=server.url)
        assert 0 == called("show", "db-password", url=server.url)
    told = capsys.readouterr().out
    assert ("JOBS" in told, "12" in told) == (True, True)
    users = " ".join(told.partition("used by")[2].split())
    assert users.startswith("job nightly")
    assert "; stored task shared; 3 that you may not see; perhaps more" in users
    assert ("good" in told, "without its key" in told, "1a2b3c4d5e6f7081" in told) == (True, True, True)
    assert "\x1b" not in told


def test_a_secret_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name."""
    with serving(Reply(200, DETAILS)) as server:
        assert 0 == called("remove", "db-password", url=server.url)
    assert [("DELETE", "/api/v1/secrets/db-password")] == [(each.method, each.path) for each in server.received]
    assert "is removed" in capsys.readouterr().out


def test_a_secret_that_is_used_is_not_removed_where_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """The server's refusal is told, and the option that removes it all the same; `--force` says it beforehand."""
    with serving(Reply(409, IN_USE), Reply(200, DETAILS)) as server:
        assert 4 == called("remove", "db-password", url=server.url)
        told = capsys.readouterr().err
        assert ("is used by 1 job; runs fail." in told, "secrets remove db-password --force" in told) == (True, True)
        assert 0 == called("remove", "db-password", "--force", url=server.url)
    assert ["/api/v1/secrets/db-password", "/api/v1/secrets/db-password?force=true"] == [
        each.path for each in server.received
    ]


@pytest.mark.parametrize(("answer", "sent"), [("y\n", 2), ("n\n", 1), ("\n", 1)])
def test_a_prompt_asks_before_a_secret_that_is_used_is_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, sent: int
) -> None:
    """With its users; nothing is done unless the answer is yes."""
    monkeypatch.setattr(sys, "stdin", Keyboard(answer))
    with serving(Reply(409, IN_USE), Reply(200, DETAILS)) as server:
        assert 0 == called("remove", "db-password", url=server.url)
    told = capsys.readouterr()
    assert "is used by 1 job; runs fail." in told.err
    assert (sent, sent == 2) == (len(server.received), "is removed" in told.out)


def test_a_rotation_asks_until_all_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    """And tells what could not be decrypted, by name, with an exit code of its own."""
    failed = {"namespace": "default", "name": "old", "detail": "it is sealed under the key 00"}
    with serving(
        Reply(200, {"rewrapped": 50, "failed": [], "next": "abc"}),
        Reply(200, {"rewrapped": 3, "failed": [failed], "next": None}),
        Reply(200, {"rewrapped": 1, "failed": [], "next": None}),
    ) as server:
        assert 4 == called("rewrap", url=server.url)
        assert "53 secrets" in (told := capsys.readouterr()).out
        assert "default/old: it is sealed under the key 00" in told.err
        assert 0 == called("rewrap", "--again", url=server.url)
    assert [{"again": False}, {"again": False, "after": "abc"}, {"again": True}] == [
        each.body for each in server.received
    ]


def test_the_keys_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """With the secrets whose key is lost."""
    keys = [
        {"id": "aa", "known": True, "newest": True, "secrets": 3},
        {"id": "bb", "known": True, "newest": False, "secrets": 1},
        {"id": "cc", "known": False, "newest": False, "secrets": 1},
    ]
    with serving(Reply(200, {"keys": keys, "lost": [{"namespace": "default", "name": "old"}]})) as server:
        assert 0 == called("keys", url=server.url)
    told = capsys.readouterr()
    assert [["aa", "3", "newest"], ["bb", "1", "earlier"], ["cc", "1", "not", "set"]] == [
        line.split() for line in told.out.splitlines()[1:]
    ]
    assert "default/old" in told.err


def test_a_new_key_is_32_random_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone on stdout, so that it can be written to a file."""
    found = set()
    for _ in range(2):
        assert 0 == int(main(["secrets", "new-key"]))
        found.add(capsys.readouterr().out)
    assert {32} == {len(base64.b64decode(each)) for each in found}
    assert 2 == len(found)
