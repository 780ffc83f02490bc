"""The interpreter, folder, files and variables of a task: what is taken, and what is refused at which place."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.kinds import builtin_kinds
from tickwise.domain.errors import Invalid

KINDS = {kind.name: kind for kind in builtin_kinds()}
SCRIPT: dict[str, Any] = {"kind": "python", "source": "pass"}
COMMAND: dict[str, Any] = {"kind": "shell", "command": "true"}


def check(task: dict[str, Any]) -> Any:
    return KINDS[task["kind"]].check(task)


@pytest.mark.parametrize(
    "task",
    [
        SCRIPT | {"python": "/srv/venv/bin/python", "directory": "/srv/reports"},
        SCRIPT | {"python": "python3.12", "env": {"REGION": "eu", "EMPTY": "", "a.b": "line\nline"}},
        SCRIPT | {"files": {"helpers/dates.py": "x = 1\r\n", "logo.png": {"base64": "AAEC"}, "empty": ""}},
        SCRIPT | {"files": {"a": {"sha256": "0" * 64}}},
        COMMAND | {"directory": "/tmp", "env": {"A": "1"}, "files": {"lib.sh": "f() { :; }"}},
        {"kind": "shell", "argv": ["./run"], "files": {"task.py": "a script of its own"}},
    ],
)
def test_surroundings_are_kept_as_they_are(task: dict[str, Any]) -> None:
    """A further check changes nothing."""
    assert check(task) == task == check(check(task))


def test_what_says_nothing_is_left_out() -> None:
    """So two jobs that mean the same are stored as the same."""
    assert check(SCRIPT | {"python": None, "directory": None, "files": {}, "env": {}}) == SCRIPT


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"python": "venv/bin/python"}, "/python"),
        ({"python": "~/venv/bin/python"}, "/python"),
        ({"python": "/bin/py\nthon"}, "/python"),
        ({"python": 3}, "/python"),
        ({"python": "/" + "a" * 1_000}, "/python"),
        ({"directory": "reports"}, "/directory"),
        ({"directory": "/srv/\0"}, "/directory"),
        ({"directory": ["/srv"]}, "/directory"),
        ({"env": []}, "/env"),
        ({"env": {"": "x"}}, "/env"),
        ({"env": {"A=B": "x"}}, "/env"),
        ({"env": {"A\0": "x"}}, "/env"),
        ({"env": {"A\x1b": "x"}}, "/env"),
        ({"env": {"A": 1}}, "/env/A"),
        ({"env": {"A": None}}, "/env/A"),
        ({"env": {"A": "a\0b"}}, "/env/A"),
        ({"env": {"A": "\ud800"}}, "/env/A"),
        ({"env": {"A": "secret:-"}}, "/env/A"),
        ({"env": {"TICKWISE_RUN_ID": "x"}}, "/env/TICKWISE_RUN_ID"),
        ({"env": {"tickwise_api_key": "x"}}, "/env/tickwise_api_key"),
        ({"env": {"LD_PRELOAD": "/tmp/x.so"}}, "/env/LD_PRELOAD"),
        ({"env": {"BASH_ENV": "/tmp/x"}}, "/env/BASH_ENV"),
        ({"env": {f"A{number}": "" for number in range(101)}}, "/env"),
        ({"env": {"A": "x" * 70_000}}, "/env"),
        ({"files": ["a"]}, "/files"),
        ({"files": {"": "x"}}, "/files"),
        ({"files": {"a\nb": "x"}}, "/files"),
        ({"files": {"a\u2028b": "x"}}, "/files"),
        ({"files": {"../a": "x"}}, "/files/..~1a"),
        ({"files": {"a/../b": "x"}}, "/files/a~1..~1b"),
        ({"files": {"./a": "x"}}, "/files/.~1a"),
        ({"files": {"/etc/passwd": "x"}}, "/files/~1etc~1passwd"),
        ({"files": {"a//b": "x"}}, "/files/a~1~1b"),
        ({"files": {"a/": "x"}}, "/files/a~1"),
        ({"files": {"a": "x", "a/b": "x"}}, "/files/a"),
        ({"files": {"/".join("abcdefghijk"): "x"}}, "/files/" + "~1".join("abcdefghijk")),
        ({"files": {"ü" * 128: "x"}}, "/files/" + "ü" * 128),
        ({"files": {"task.py": "x"}}, "/files/task.py"),
        ({"files": {"a": 1}}, "/files/a"),
        ({"files": {"a": {"base64": "!"}}}, "/files/a"),
        ({"files": {"a": {"sha256": "../x"}}}, "/files/a"),
        ({"files": {"a": {"base64": "", "sha256": "0" * 64}}}, "/files/a"),
        ({"files": {"a": "\ud800"}}, "/files/a"),
        ({"files": {f"{number}": "" for number in range(101)}}, "/files"),
        ({"files": {"a": "x" * (1 << 20), "b": "x"}}, "/files"),
        ({"files": {"a": {"base64": base64.b64encode(bytes((1 << 20) + 1)).decode()}}}, "/files"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(fields: dict[str, Any], pointer: str) -> None:
    """The name of a variable is not repeated where it may hold a value."""
    with pytest.raises(Invalid) as refused:
        check(SCRIPT | fields)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("text", ["secret:db.password", "secret-file:db", "secret:vault:app/db#key"])
def test_a_variable_may_be_a_secret(text: str) -> None:
    """It is stored as it is written."""
    assert {"PASSWORD": text} == check(COMMAND | {"env": {"PASSWORD": text}})["env"]


@pytest.mark.parametrize("text", ["secret:-db", "secret:two words", "secret-file:a/b"])
def test_a_reference_that_names_no_secret_is_refused_with_its_variable(text: str) -> None:
    """A slip is told when the task is stored, and not by its first run."""
    with pytest.raises(Invalid) as refused:
        check(COMMAND | {"env": {"PASSWORD": text}})
    assert "/env/PASSWORD" == refused.value.pointer


@pytest.mark.parametrize("field", ["requirements", "lock"])
def test_a_python_that_is_named_has_the_packages_that_it_has(field: str) -> None:
    """So nothing else may declare any."""
    declared = {"requirements": "requests", "lock": "version = 1\n"}[field]
    with pytest.raises(Invalid, match=f"either `python` or `{field}`") as refusal:
        check(SCRIPT | {"python": "/srv/venv/bin/python", field: declared})
    assert refusal.value.pointer == "/python"


@pytest.mark.parametrize("task", [{"kind": "function", "name": "a"}, {"kind": "http", "url": "http://host/"}])
@pytest.mark.parametrize("field", ["python", "directory", "files", "env"])
def test_other_kinds_have_none(task: dict[str, Any], field: str) -> None:
    """They have no process of their own."""
    with pytest.raises(Invalid) as refused:
        check(task | {field: "/x"})
    assert refused.value.pointer == f"/{field}"


def test_a_command_has_no_interpreter() -> None:
    """Its shell is /bin/sh, or the program that it names."""
    with pytest.raises(Invalid):
        check(COMMAND | {"python": "/usr/bin/python3"})
