"""The cause of a failure as one line: a corpus of what programs write before they end."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.excerpts import READ_CHARACTERS, both_ends, cause_line

TRACEBACK = """Traceback (most recent call last):
  File "task.py", line 4, in <module>
    load(3)
    ~~~~^^^
  File "task.py", line 2, in load
    raise ValueError("row 17 has no price")
ValueError: row 17 has no price
"""
CHAINED = """Traceback (most recent call last):
  File "b.py", line 3, in f
    {}["x"]
    ~~^^^^^
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 6, in <module>
    f()
  File "b.py", line 5, in f
    raise RuntimeError("no price") from e
RuntimeError: no price
"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 2, in <module>
  |     raise ExceptionGroup("two failed", [...])
  | ExceptionGroup: two failed (2 sub-exceptions)
  | while the night's orders were read
  +-+---------------- 1 ----------------
    | ExceptionGroup: inner (1 sub-exception)
    +-+---------------- 1 ----------------
      | Traceback (most recent call last):
      |   File "a.py", line 9, in load
      |     int("x")
      | ValueError: invalid literal
      +------------------------------------
    +---------------- 2 ----------------
    | KeyError: 'k'
    +------------------------------------
"""
SYNTAX = """  File "/srv/c.py", line 1
    if x
        ^
SyntaxError: expected ':'
"""
NODE = """/srv/d.js:1
throw new Error("late\\nsecond line")
^

Error: late
second line
    at Object.<anonymous> (/srv/d.js:1:7)
    at node:internal/main/run_main_module:28:49

Node.js v20.20.2
"""
NODE_CAUSE = """/srv/d.js:1
throw new Error("outer", {cause: new TypeError("inner")})
^

Error: outer
    at Object.<anonymous> (/srv/d.js:1:7)
    ... 4 lines matching cause stack trace ...
    at node:internal/main/run_main_module:28:49 {
  [cause]: TypeError: inner
      at Object.<anonymous> (/srv/d.js:1:34)
      at node:internal/main/run_main_module:28:49
}

Node.js v20.20.2
"""
JAVA = """INFO starting
Exception in thread "main" java.lang.RuntimeException: job failed
\tat G.main(G.java:1)
\tSuppressed: java.io.IOException: close
\t\tat G.main(G.java:1)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.connect0(Native Method)
\tat G.main(G.java:1)
\t... 3 more
"""
GO = """panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.main()
\t/srv/x.go:5 +0x1d
exit status 2
"""
RUST = """thread 'main' panicked at src/main.rs:2:5:
index out of bounds: the len is 3 but the index is 5
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
RUBY = """x.rb:1:in `pay': undefined method `cents' (NoMethodError)
\tfrom x.rb:3:in `<main>'
"""
MAKE = """cc -c x.c
x.c:3:5: error: expected ';' before 'return'
    3 | return 0
      | ^~~~~~
make: *** [Makefile:3: all] Error 1
"""
JSON_LINES = """{"level":"info","msg":"starting"}
{"level":"error","msg":"cannot connect","error":"dial tcp 10.0.0.3:5432: refused"}
{"level":"info","msg":"bye"}
"""

CORPUS = {
    "python": (TRACEBACK, "ValueError: row 17 has no price"),
    "python after output": (f"starting\n{TRACEBACK}", "ValueError: row 17 has no price"),
    "python before output": (f"{TRACEBACK}error: step 4 failed", "ValueError: row 17 has no price"),
    "python, chained": (CHAINED, "RuntimeError: no price"),
    "python with notes": (
        f"{TRACEBACK}while reading prices.csv\nerror: of the night", "ValueError: row 17 has no price",
    ),
    "python, a message of lines": (f"{TRACEBACK}[SQL: SELECT 1]\n(Background)", "ValueError: row 17 has no price"),
    "python, a group": (GROUP, "ExceptionGroup: two failed (2 sub-exceptions): ValueError: invalid literal"),
    "python, a group after output": (
        f"one\n{GROUP}", "ExceptionGroup: two failed (2 sub-exceptions): ValueError: invalid literal",
    ),
    "python, its begin is cut off": (TRACEBACK.partition("^^^\n")[2], "ValueError: row 17 has no price"),
    "python, a group whose begin is cut off": ("|   File \"a.py\", line 2, in f\n  | ValueError: no", "ValueError: no"),
    "python, syntax": (SYNTAX, "SyntaxError: expected ':'"),
    "python, sys.exit": ("214 payments\nbank gateway: 503 (batch 7)", "bank gateway: 503 (batch 7)"),
    "node": (NODE, "Error: late"),
    "node with a cause": (NODE_CAUSE, "TypeError: inner"),
    "node, no exception": (
        '/srv/e.js:1\nthrow "boom"\n^\nboom\n(Use `node --trace-uncaught ...` to show)\n\nNode.js v20.20.2', "boom",
    ),
    "java": (JAVA, "java.net.ConnectException: Connection refused"),
    "go": (GO, "panic: runtime error: index out of range [5] with length 3"),
    "rust": (
        RUST, "thread 'main' panicked at src/main.rs:2:5: index out of bounds: the len is 3 but the index is 5",
    ),
    "ruby": (RUBY, "x.rb:1:in `pay': undefined method `cents' (NoMethodError)"),
    "bash": ("/srv/x.sh: line 3: foo: command not found", "/srv/x.sh: line 3: foo: command not found"),
    "bash goes on": ("x.sh: line 3: foo: command not found\n0 files", "x.sh: line 3: foo: command not found"),
    "bash, syntax": (
        "i.sh: line 2: syntax error near unexpected token `fi'\ni.sh: line 2: `fi'",
        "i.sh: line 2: syntax error near unexpected token `fi'",
    ),
    "sh": ("x.sh: 1: foo: not found", "x.sh: 1: foo: not found"),
    "set -x": ("+ cp a b\ncp: cannot stat 'a': No such file or directory\n+ exit 1",
               "cp: cannot stat 'a': No such file or directory"),
    "set -e says nothing": ("copied 3 of 9", "copied 3 of 9"),
    "psql": ('psql: error: FATAL: role "x" does not exist\nbye', 'psql: error: FATAL: role "x" does not exist'),
    "a log": ("2026-11-26 04:30 ERROR no disk\n2026-11-26 04:30 INFO bye", "2026-11-26 04:30 ERROR no disk"),
    "logfmt": ('level=error msg="no disk"\nlevel=info msg=bye', 'level=error msg="no disk"'),
    "make": (MAKE, "x.c:3:5: error: expected ';' before 'return'"),
    "no errors": ("0 errors, 3 warnings\ndone", "done"),
    "json lines": (JSON_LINES, "cannot connect: dial tcp 10.0.0.3:5432: refused"),
    "json lines, none is an error": ('{"level":"info","msg":"one"}\n{"level":"info","msg":"two"}', "two"),
    "json lines with numbers": ('{"level":50,"err":{"message":"boom"},"msg":"request failed"}', "request failed: boom"),
    "json with a traceback": ('{"level":"ERROR","message":"no","exc_info":' + json.dumps(TRACEBACK) + "}",
                              "no: ValueError: row 17 has no price"),
    "json that is none": ('{"level": oops}', '{"level": oops}'),
    "colours": ("\x1b[36mINFO\x1b[0m\n\x1b[1;31mERROR\x1b[0m \x1b]8;;http://a\x07two\x1b]8;;\x07\nend", "ERROR two"),
    "colours in a traceback": (TRACEBACK.replace("ValueError:", "\x1b[1;35mValueError\x1b[0m:"),
                               "ValueError: row 17 has no price"),
    "CRLF": (TRACEBACK.replace("\n", "\r\n"), "ValueError: row 17 has no price"),
    "a progress bar": ("10 %\r20 %\rcannot write\r\n", "cannot write"),
    "not UTF-8": (b"caf\xe9 ist kaputt".decode(errors="replace"), "caf\ufffd ist kaputt"),
    "NUL": ("\x00one\x00", "\x00one\x00"),
}  # fmt: skip


@pytest.mark.parametrize(("output", "expected"), CORPUS.values(), ids=CORPUS.keys())
def test_the_cause_of_a_failure_is_told(output: str, expected: str) -> None:
    """With how the process ended."""
    assert f"exit status 1: {expected}" == cause_line(f"exit status 1: {output.strip()}")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ""),
        ("", ""),
        ("exit status 3", "exit status 3"),
        ("exit status 1: \x1b[0m", "exit status 1"),
        ("ended by signal SIGKILL: half\ndone\n\n", "ended by signal SIGKILL: done"),
        ("exit status 1:   indented", "exit status 1: indented"),
        (TRACEBACK, "ValueError: row 17 has no price"),
        (f"pandas is not installed for its Python.\nexit status 1: {TRACEBACK}", "ValueError: row 17 has no price"),
        ("disk full\nat line 3\nerror: three", "disk full"),
        ("status 503: upstream is away\nmore", "status 503: upstream is away"),
        ('status 422: {"detail": "no weight", "x": 1}', "status 422: no weight"),
        ('status 500: {\n "error": {"message": "deep"}}', "status 500: deep"),
        ('status 500: {"message":"cut \\"off", "x": [', 'status 500: cut \\"off'),
        ("status 502: <html><head>\n<title>Bad\n Gateway</title>", "status 502: Bad Gateway"),
        ("status 502: <br>\nx", "status 502: <br>"),
    ],
)
def test_an_error_without_an_output_is_told(error: str | None, expected: str) -> None:
    """By its first line, by the message of an answer, or by how it ended."""
    assert expected == cause_line(error)


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "error",
        "error ",
        "  at (",
        '{"a":',
        "x: 1: y\n",
        "a.",
        "\x1b[0",
        '"error": "\\',
        '  File "',
        " ",
        "<title",
        "\n",
        "[",
    ],
)
@pytest.mark.parametrize("begin", ["exit status 1: ", "status 500: {", "status 500: <", ""])
def test_no_text_takes_long(begin: str, piece: str) -> None:
    """A stranger writes it."""
    before = time.thread_time()
    cause_line(begin + piece * (1_000_000 // len(piece)))
    assert time.thread_time() - before < 0.5


@given(
    st.text(),
    st.sampled_from(["exit status 1: ", "status 500: ", "", "exit status 1: Traceback (most recent call last):\n"]),
)
def test_any_text_has_one_line(text: str, begin: str) -> None:
    """Its cause is at most one."""
    assert len(cause_line(begin + text).splitlines()) <= 1


@pytest.mark.parametrize("length", [0, 999, 1_000])
def test_a_short_error_is_kept_whole(length: int) -> None:
    """It fits."""
    assert "a" * length == both_ends("a" * length, 1_000)


def test_of_a_long_error_both_ends_are_kept() -> None:
    """How it ended, and the cause."""
    kept = both_ends("exit status 1: " + "a line\n" * 900 + TRACEBACK, 1_000)
    assert 1_000 == len(kept)
    assert "exit status 1: ValueError: row 17 has no price" == cause_line(kept)


def test_the_end_of_a_very_long_text_is_read() -> None:
    """There the cause is."""
    assert "exit status 1: the end" == cause_line("exit status 1: " + "a line\n" * READ_CHARACTERS + "the end")
