"""What each built-in task kind takes, and how it refuses the rest: with a pointer to the field."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.kinds import builtin_kinds
from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.runner.http.composing import first_request
from tickwise.adapters.runner.kinds import MAX_SOURCE_CHARACTERS
from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.process.start import TaskText, arguments_of
from tickwise.domain.errors import Invalid
from tickwise.testing.contracts.runner import assignment

KINDS = {kind.name: kind for kind in builtin_kinds()}


def check(task: dict[str, Any]) -> Any:
    return KINDS[task["kind"]].check(task)


def test_the_built_in_kinds_are_these_five() -> None:
    """Others come as plugins."""
    assert set(KINDS) == {"function", "python", "shell", "http", "container"}


@pytest.mark.parametrize(
    "task",
    [
        {"kind": "function", "name": "reports.nightly"},
        {"kind": "python", "source": "print('hello')\n"},
        {"kind": "python", "file": "sha256:" + "a" * 64},
        {"kind": "shell", "command": "#!/bin/sh\nset -e\ndf -h\n"},
        {"kind": "shell", "argv": ["ls", "-l", ""]},
        {
            "kind": "http",
            "method": "POST",
            "url": "https://[::1]:8443/a%20b?x=1",
            "headers": {"Authorization": "Bearer x"},
            "body": {"a": 1},
            "expect": ["2xx", 404],
        },
    ],
)
def test_a_complete_task_is_kept_as_it_is(task: dict[str, Any]) -> None:
    """Nothing is added, nothing is left out."""
    assert check(task) == task


def test_http_defaults_are_made_explicit() -> None:
    """So a later change of a default changes no stored job."""
    assert check({"kind": "http", "url": "http://host/"}) == {
        "kind": "http",
        "method": "GET",
        "url": "http://host/",
        "headers": {},
        "expect": ["2xx"],
    }


def test_a_single_expected_status_may_stand_alone() -> None:
    """It is what people write first."""
    assert check({"kind": "http", "url": "http://host/", "expect": 204})["expect"] == [204]
    assert check({"kind": "http", "url": "http://host/", "method": "post"})["method"] == "POST"


@pytest.mark.parametrize(
    ("task", "pointer"),
    [
        ({"kind": "function"}, "/name"),
        ({"kind": "function", "name": 7}, "/name"),
        ({"kind": "function", "name": " "}, "/name"),
        ({"kind": "python"}, "/source"),
        ({"kind": "python", "source": "pass", "file": "sha256:" + "a" * 64}, "/file"),
        ({"kind": "python", "source": ""}, "/source"),
        ({"kind": "python", "source": ["pass"]}, "/source"),
        ({"kind": "python", "source": "x" * (MAX_SOURCE_CHARACTERS + 1)}, "/source"),
        ({"kind": "python", "source": "pass\0"}, "/source"),
        ({"kind": "python", "file": "../../etc/passwd"}, "/file"),
        ({"kind": "python", "file": "sha256:" + "A" * 64}, "/file"),
        ({"kind": "shell"}, "/command"),
        ({"kind": "shell", "command": "ls", "argv": ["ls"]}, "/argv"),
        ({"kind": "shell", "argv": []}, "/argv"),
        ({"kind": "shell", "argv": "ls -l"}, "/argv"),
        ({"kind": "shell", "argv": ["ls", 1]}, "/argv/1"),
        ({"kind": "shell", "argv": ["ls", "a\0b"]}, "/argv/1"),
        ({"kind": "shell", "argv": [""]}, "/argv/0"),
        ({"kind": "http"}, "/url"),
        ({"kind": "http", "url": "host/path"}, "/url"),
        ({"kind": "http", "url": "file:///etc/passwd"}, "/url"),
        ({"kind": "http", "url": "http:///path"}, "/url"),
        ({"kind": "http", "url": "http://host:port/"}, "/url"),
        ({"kind": "http", "url": "http://[::1/"}, "/url"),
        ({"kind": "http", "url": "http://host/a b"}, "/url"),
        ({"kind": "http", "url": "http://host/\r\nX: y"}, "/url"),
        ({"kind": "http", "url": "http://h/", "method": "TRACE"}, "/method"),
        ({"kind": "http", "url": "http://h/", "method": 1}, "/method"),
        ({"kind": "http", "url": "http://h/", "headers": []}, "/headers"),
        ({"kind": "http", "url": "http://h/", "headers": {"A B": "x"}}, "/headers"),
        ({"kind": "http", "url": "http://h/", "headers": {"A": "x\r\nB: y"}}, "/headers/A"),
        ({"kind": "http", "url": "http://h/", "headers": {"A": 1}}, "/headers/A"),
        ({"kind": "http", "url": "http://h/", "headers": {"Tickwise-Run-Id": "x"}}, "/headers/Tickwise-Run-Id"),
        ({"kind": "http", "url": "http://h/", "headers": {"content-length": "1"}}, "/headers/content-length"),
        ({"kind": "http", "url": "http://h/", "expect": []}, "/expect"),
        ({"kind": "http", "url": "http://h/", "expect": [200, 99]}, "/expect/1"),
        ({"kind": "http", "url": "http://h/", "expect": [True]}, "/expect/0"),
        ({"kind": "http", "url": "http://h/", "expect": ["20x"]}, "/expect/0"),
        ({"kind": "http", "url": "http://h/", "body": "x"}, "/body"),
    ],
)
def test_what_is_wrong_is_refused_with_a_pointer(task: dict[str, Any], pointer: str) -> None:
    """Relative to the task."""
    with pytest.raises(Invalid) as refused:
        check(task)
    assert refused.value.pointer == pointer


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """No file can hold it, so no process can read it."""
    with pytest.raises(Invalid) as refused:
        check({"kind": "python", "source": "\ud800 = 1"})
    assert refused.value.code == "script_invalid"


def test_checking_needs_no_runner() -> None:
    """The API loads the kinds without the libraries that run them."""
    code = "import sys, tickwise.adapters.runner.kinds; print('aiohttp' in sys.modules, 'msgspec' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split()[0] == "False"


def test_a_start_leaves_the_task_as_it_is(tmp_path: Path) -> None:
    """All runs of a job share it, so what one start changed in it, the next would find."""
    kinds = {kind.name: kind for kind in builtin_kinds()}
    request = {
        "kind": "http",
        "url": "https://a.example/",
        "method": "POST",
        "headers": {"X-A": "1"},
        "body": {"a": [1]},
    }
    for said in (request, {"kind": "shell", "command": "true"}, {"kind": "shell", "argv": ["echo", "a"]}):
        task = kinds[str(said["kind"])].check(said)
        before = copy.deepcopy(task)
        given = assignment(task)
        if said is request:
            cast("dict[str, str]", first_request(given, HttpAccess(), now=0.0).headers)["X-B"] = "2"
        else:
            cast(
                "list[str]",
                arguments_of(given, tmp_path, TaskText(), number=1, python=Interpreter(program="python", launcher="")),
            ).append("more")
        assert before == task
