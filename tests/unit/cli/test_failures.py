"""A refused request is shown as what is wrong and where on the command line it was said."""

from __future__ import annotations

import pytest

from tickwise.cli.failures import Exit, FieldSource, explain_problem, show
from tickwise.cli.main import main
from tickwise.cli.session import Session

SCRIPT = "import os\n\ndef f(:\n    pass\n"


def test_a_mark_stands_under_the_field_of_a_cron_line() -> None:
    """The position is the server's; the mark covers the field."""
    blame = {"/cron_expression": FieldSource("--cron", "61 25 * * *")}
    lines = explain_problem({"pointer": "/cron_expression", "position": 3}, "25 is no hour", blame)
    assert ["  --cron '61 25 * * *'", "             ^^"] == lines


def test_a_mark_may_stand_behind_the_end() -> None:
    """A field that is missing is missing there."""
    lines = explain_problem({"pointer": "/c", "position": 3}, "too short", {"/c": FieldSource("--cron", "* *")})
    assert ["  --cron '* *'", "             ^"] == lines


def test_a_script_is_shown_around_the_line_at_fault() -> None:
    """With its neighbours, and a mark under the column."""
    problem = {"pointer": "/task/source"}
    detail = "the script does not compile: invalid syntax (line 3, column 7)"
    lines = explain_problem(problem, detail, {"/task/source": FieldSource("job.py", SCRIPT)})
    assert [
        "  job.py, line 3:",
        "       1 | import os",
        "       2 | ",
        "  >    3 | def f(:",
        "         |       ^",
        "       4 |     pass",
    ] == lines


def test_a_field_below_is_blamed_on_what_said_the_field_above() -> None:
    """The nearest that is known."""
    blame = {"/payload": FieldSource("--payload", "{}"), "/payload/db": FieldSource("--param", "db=1")}
    assert ["  --param db=1"] == explain_problem({"pointer": "/payload/db/x"}, "", blame)
    assert ["  --payload '{}'"] == explain_problem({"pointer": "/payload/other"}, "", blame)


def test_an_unknown_pointer_is_shown_as_it_is() -> None:
    """Better than nothing."""
    assert ["  at /labels/a"] == explain_problem({"pointer": "/labels/a"}, "", {})
    assert [] == explain_problem({"pointer": ""}, "", {})
    assert [] == explain_problem({}, "", {})


def test_a_query_parameter_is_blamed_on_its_option() -> None:
    """Listings have parameters instead of pointers."""
    assert ["  --status XX"] == explain_problem({"parameter": "status"}, "", {"?status": FieldSource("--status", "XX")})


def test_exit_codes_are_what_scripts_rely_on() -> None:
    """Never renumbered."""
    assert {
        "OK": 0, "JOB_FAILED": 1, "USAGE": 2, "UNREACHABLE": 3, "REFUSED": 4, "NOT_FOUND": 5, "MISCONFIGURED": 6,
        "BUG": 70, "INTERRUPTED": 130,
    } == {code.name: code.value for code in Exit}  # fmt: skip


HOSTILE = "red \x1b[31m bell \x07 c1 \x9b31m turned \u202e half \udc80 return \r"


def test_no_error_lets_control_characters_through(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever wrote them: the server, a file, the person. Line breaks are kept."""
    blame = {"/cron_expression": FieldSource("--cron", f"{HOSTILE} x")}
    problem = {"pointer": "/cron_expression", "position": len(HOSTILE) + 1}
    show([*explain_problem(problem, HOSTILE, blame), "one\ntwo"], first=HOSTILE)
    seen = capsys.readouterr().err
    assert not set("\x1b\x07\x9b\u202e\udc80\r") & set(seen)
    error, said, mark, *rest = seen.splitlines()
    assert r"red \x1b[31m bell \x07" in error
    assert said.index("x'") == mark.index("^")
    assert ["one", "two"] == rest


def test_no_message_lets_control_characters_through(capsys: pytest.CaptureFixture[str]) -> None:
    """On either stream."""
    session = Session(environ={})
    session.say(HOSTILE)
    session.note(HOSTILE)
    out, err = capsys.readouterr()
    assert out == err
    assert not set("\x1b\x07\x9b\u202e\udc80\r") & set(out)


def test_what_utf_8_cannot_say_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The shell hands over any bytes; the server takes text."""
    server = ("--url", "http://127.0.0.1:1", "--api-key", "x")
    assert Exit.USAGE == main(["jobs", "show", "\udcff", *server])
    assert "is no text that UTF-8 can say" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--json", "--count", "0"), ("--count", "0", "--json")])
def test_a_usage_error_is_json_wherever_that_was_asked(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Also behind the option that is wrong."""
    assert Exit.USAGE == main(["schedule", "preview", "* * * * *", *arguments])
    assert '"code": "usage"' in capsys.readouterr().out
