"""The server and the key are found as told, else those of the local `up`; a key is never sent to another server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tickwise import config
from tickwise.cli import connection
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.main import main
from tickwise.domain.errors import Misconfigured


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """The data folder of a running `up`."""
    value = {"url": "http://127.0.0.1:8471", "key": "local-key", "pid": 1}
    (tmp_path / "client.json").write_text(json.dumps(value), encoding="utf-8")
    return tmp_path


def _find(folder: Path, url: str | None = None, key: str | None = None, **environ: str) -> connection.ServerTarget:
    return connection.find(url=url, key=key, data_dir=str(folder), environ=environ)


def test_a_local_up_is_found_with_its_key(local: Path) -> None:
    """Nothing to paste."""
    assert connection.ServerTarget("http://127.0.0.1:8471", "local-key", is_local=True) == _find(local)


def test_what_is_told_comes_first(local: Path) -> None:
    """Options before the environment, the environment before the local one."""
    environ = {"TICKWISE_URL": "http://env", "TICKWISE_API_KEY": "env-key"}
    assert connection.ServerTarget("http://env", "env-key") == _find(local, **environ)
    assert connection.ServerTarget("http://option", "option-key") == _find(
        local, "http://option", "option-key", **environ
    )


def test_the_local_key_stays_here(local: Path) -> None:
    """Another server must not even see it; the local one by its full address may."""
    assert connection.ServerTarget("http://other", None) == _find(local, "http://other")
    same = connection.ServerTarget("http://127.0.0.1:8471/", "local-key", is_local=True)
    assert same == _find(local, "http://127.0.0.1:8471/")


def test_another_key_for_the_local_server(local: Path) -> None:
    """Its address is still found."""
    assert connection.ServerTarget("http://127.0.0.1:8471", "mine", is_local=True) == _find(local, key="mine")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TICKWISE_DATA_DIR": ""},
        {"TICKWISE_DATA_DIR": "~/here"},
        {"TICKWISE_DATA_DIR": "below/this"},
        {"TICKWISE_URL": "http://a", "TICKWISE_DATA_DIR": "/there"},
        {"XDG_DATA_HOME": "/of/data"},
        {"XDG_DATA_HOME": "of/data"},
    ],
)
@pytest.mark.parametrize("user", [0, 1_000])
def test_the_data_folder_is_that_of_the_settings(
    environ: dict[str, str], user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which commands find without them. The settings go by the environment of the process."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert config.load(environ).data_dir.absolute() == connection.default_data_dir({**os.environ, **environ})


def test_a_slip_in_the_name_of_a_variable_is_said() -> None:
    """By commands too: the folder that was meant may be another one."""
    with pytest.raises(Misconfigured, match="TICKWISE_DATA_DIR"):
        connection.default_data_dir({"TICKWISE_DATADIR": "/there"})


def test_the_data_folder_may_come_from_the_environment(local: Path) -> None:
    """As for `up` itself."""
    environ = {"TICKWISE_DATA_DIR": str(local)}
    found = connection.find(url=None, key=None, data_dir=None, environ=environ)
    assert "local-key" == found.key


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 3}'])
def test_a_file_that_is_none_of_ours_is_as_none(tmp_path: Path, content: str) -> None:
    """Half written, or something else."""
    (tmp_path / "client.json").write_text(content, encoding="utf-8")
    with pytest.raises(CommandFailure, match="no running Tickwise") as caught:
        _find(tmp_path)
    assert Exit.UNREACHABLE == caught.value.code


def test_without_any_server_it_is_said_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, no traceback, and the folder that was looked at."""
    for name in ("TICKWISE_URL", "TICKWISE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert 3 == main(["jobs", "list", "--data-dir", str(tmp_path)])
    told = capsys.readouterr()
    assert "" == told.out
    assert "tickwise up" in told.err
    assert str(tmp_path) in told.err


def test_an_error_is_json_where_json_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, as the one value; the sentence goes to stderr."""
    assert 3 == main(["--json", "--url", "http://127.0.0.1:9", "--api-key", "k", "jobs", "list"])
    told = capsys.readouterr()
    assert "unreachable" == json.loads(told.out)["error"]["code"]
    assert told.err.startswith("Error: ")


class Known:
    """Sign-ins at these servers, the newest first."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    def get(self, url: str) -> SimpleNamespace | None:
        return SimpleNamespace(url=url) if url in self._urls else None

    def last(self) -> SimpleNamespace | None:
        return SimpleNamespace(url=self._urls[0]) if self._urls else None


@pytest.mark.parametrize(
    ("url", "key", "environ", "expected"),
    [
        ("http://far", None, {}, ("http://far", None, True)),
        ("http://far", "mine", {}, ("http://far", "mine", False)),
        ("http://far", None, {"TICKWISE_API_KEY": "env"}, ("http://far", "env", False)),
        ("http://other", None, {}, ("http://other", None, False)),
        (None, None, {}, ("http://127.0.0.1:8471", "local-key", False)),
    ],
)
def test_a_sign_in_is_used_at_its_own_server_unless_a_key_is_given(
    local: Path, url: str | None, key: str | None, environ: dict[str, str], expected: tuple[str, str | None, bool]
) -> None:
    """A local server comes before a sign-in elsewhere."""
    found = connection.find(
        url=url, key=key, data_dir=str(local), environ=environ, sign_ins=Known("http://far", "http://further")
    )
    assert expected == (found.url, found.key, found.is_signed_in)


def test_without_a_local_server_the_last_sign_in_counts(tmp_path: Path) -> None:
    """So one `login` is enough for the commands after it; a data folder that is named must have a server."""
    environ = {"TICKWISE_DATA_DIR": str(tmp_path), "TICKWISE_NAMESPACE": "team-a"}
    found = connection.find(url=None, key=None, data_dir=None, environ=environ, sign_ins=Known("http://far"))
    assert ("http://far", None, "team-a", True) == (found.url, found.key, found.namespace, found.is_signed_in)
    with pytest.raises(CommandFailure):
        connection.find(url=None, key=None, data_dir=str(tmp_path), environ=environ, sign_ins=Known("http://far"))


def test_a_server_that_starts_or_stops_is_named(tmp_path: Path) -> None:
    """Not as one that is not there: a second `up` would be refused."""
    (tmp_path / "lock").write_text(json.dumps({"pid": os.getpid(), "port": 8470}), encoding="utf-8")
    with pytest.raises(CommandFailure, match="starting or stopping"):
        _find(tmp_path)
    (tmp_path / "lock").write_text("", encoding="utf-8")
    with pytest.raises(CommandFailure, match="no running Tickwise"):
        _find(tmp_path)
