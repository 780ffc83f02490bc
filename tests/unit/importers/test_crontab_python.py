"""The Python of a crontab's command: where a line names one, and where it seems to."""

from __future__ import annotations

import pytest

from tickwise.importers.crontab_python import with_python


@pytest.mark.parametrize(
    ("text", "wanted", "replaced"),
    [
        ("python3 /srv/report.py", "P /srv/report.py", ("python3",)),
        ("/usr/bin/python3.11 -u /srv/report.py >>/var/log/python 2>&1", "P -u /srv/report.py >>/var/log/python 2>&1",
         ("/usr/bin/python3.11",)),
        ("cd /srv && DAY=1 python report.py; python report.py", "cd /srv && DAY=1 P report.py; P report.py",
         ("python",)),
        ("/srv/bin/report.py --day 1", "P /srv/bin/report.py --day 1", ("the first line of /srv/bin/report.py",)),
        ("[ -f x ] || { nice -n 10 '/opt/my python/python3' x.py; }", "[ -f x ] || { nice -n 10 P x.py; }",
         ("/opt/my python/python3",)),
        ("flock -n /tmp/report.py timeout 60 ./report.py", "flock -n /tmp/report.py timeout 60 P ./report.py",
         ("the first line of ./report.py",)),
        ("sudo -n -u python3 env A=b python3 x.py", "sudo -n -u python3 env A=b P x.py", ("python3",)),
        (">log python3 x.py | tee $(python3 name.py)", ">log P x.py | tee $(P name.py)", ("python3",)),
        ("if pypy3 x.py; then python3 y.py; fi", "if P x.py; then P y.py; fi", ("pypy3", "python3")),
    ],
)  # fmt: skip
def test_the_interpreter_of_a_line_is_another_one(text: str, wanted: str, replaced: tuple[str, ...]) -> None:
    """Behind folders, variables, redirections and programs that start another one; nothing else changes."""
    assert (wanted, replaced) == with_python(text, "P")


@pytest.mark.parametrize(
    "text",
    [
        "echo python3 x.py", "/srv/bin/backup >python3", "bash -c 'python3 x.py'", "cat x.py", "python3-config --libs",
        "tar -czf x.tgz python", 'echo "$(date) python3"', "sudo -u python3 id", "PYTHON=python3 make", "'", "\\",
    ],
)  # fmt: skip
def test_a_line_that_starts_no_python_stays_as_it_is(text: str) -> None:
    """Also where the word stands for something else, and where a quote is open."""
    assert (text, ()) == with_python(text, "P")
