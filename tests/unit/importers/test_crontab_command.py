"""What a command of a crontab promises: a shell task runs it as cron would, and it can be taken apart again."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.importers.crontab_command import (
    Command,
    fails_where_a_lock_is_held,
    fails_where_a_test_is_false,
    is_cut_short,
    join_percent,
    split_percent,
    unwrap,
    wrap,
)


def output(command: Command, folder: Path) -> str:
    """What /bin/sh makes of the task's text in an environment as bare as a task's."""
    done = subprocess.run(
        ["/bin/sh", "-c", wrap(command)],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_it_runs_in_the_home_folder(tmp_path: Path) -> None:
    """That of the file, if the file sets one."""
    other = tmp_path / "o'ther $x"
    other.mkdir()
    assert output(Command("pwd -P"), tmp_path) == f"{tmp_path.resolve()}\n"
    assert output(Command("pwd -P", (("HOME", str(other)),)), tmp_path) == f"{other.resolve()}\n"


def test_it_does_not_run_elsewhere_if_there_is_no_home_folder(tmp_path: Path) -> None:
    """A relative path would name something else there."""
    with pytest.raises(subprocess.CalledProcessError):
        output(Command("echo ran; true", (("HOME", str(tmp_path / "none")),)), tmp_path)


def test_its_programs_find_the_variables(tmp_path: Path) -> None:
    """As they stand in the file."""
    found = output(Command("env", (("A", 'it\'s $HOME `x` \\ "y"'), ("B", ""))), tmp_path).splitlines()
    assert ['A=it\'s $HOME `x` \\ "y"', "B="] == sorted(line for line in found if line[:2] in ("A=", "B="))


@pytest.mark.parametrize("text", ["one\n", "\n", "a $b `c` \\\n%\n", "END_OF_INPUT\nEND_OF_INPUT_\n"])
def test_it_reads_its_input(text: str, tmp_path: Path) -> None:
    """To the letter, whatever the shell makes of such letters elsewhere; several programs share it."""
    assert output(Command('read -r first; echo "$first"; cat', stdin=text), tmp_path) == text


def test_it_reads_nothing_if_there_is_no_input(tmp_path: Path) -> None:
    """It does not wait, either."""
    assert output(Command("wc -c"), tmp_path).strip() == "0"


def test_the_shell_of_the_file_gets_the_command(tmp_path: Path) -> None:
    """With `-c`, and with the input."""
    # A link, not a script of our own: what was just written may be busy for a moment on a machine with many threads.
    shell = tmp_path / "my shell"
    shell.symlink_to("/bin/sh")
    command = Command("printf '%s|' \"$0\" 'x' # z", (("SHELL", str(shell)),))
    assert output(command, tmp_path) == f"{shell}|x|"
    assert output(Command("cat", (("SHELL", str(shell)),), "in\n"), tmp_path) == "in\n"


def test_it_finds_the_name_of_its_user(tmp_path: Path) -> None:
    """cron sets `LOGNAME`; a task has none."""
    assert output(Command('test -n "$LOGNAME" && test "$LOGNAME" = "$(id -un)" && echo yes'), tmp_path) == "yes\n"


NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,5}", fullmatch=True).filter(lambda name: name not in ("LOGNAME", "SHELL"))
LINE = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=30)
COMMANDS = st.builds(
    Command,
    LINE.filter(lambda text: text.strip()),
    st.builds(
        lambda variables, shell: (*variables.items(), *([("SHELL", shell)] if shell else [])),
        st.dictionaries(NAMES, LINE, max_size=3),
        st.sampled_from(["", "/bin/bash", "/opt/my shell"]),
    ),
    st.none() | st.lists(LINE, min_size=1, max_size=3).map(lambda lines: "\n".join(lines) + "\n"),
)


@given(COMMANDS)
def test_a_wrapped_command_can_be_unwrapped(command: Command) -> None:
    """An export finds what the import found."""
    assert unwrap(wrap(command)) == command


@given(st.text(max_size=100) | st.sampled_from(["cd || exit", "export A=b\nls", "export", "export A", "", "\n"]))
def test_other_text_is_left_alone(text: str) -> None:
    """Nothing raises, and what was not wrapped by us is not unwrapped, unless it looks just so."""
    found = unwrap(text)
    assert found is None or wrap(found) == text


@pytest.mark.parametrize(
    "text",
    ['export A="$(id -un)"\ncd || exit\nls', "export A=b\ncd /\nls", "cd || exit", "export A=$B\ncd || exit\nls", "ls"],
)
def test_a_script_that_only_begins_alike_is_not_unwrapped(text: str) -> None:
    """Its variables are no plain values, or it runs elsewhere."""
    assert unwrap(text) is None


@given(
    st.text("\\% ax'\n", max_size=12).filter(lambda text: "\n" not in text),
    st.none() | st.text("\\%a \n", max_size=8).map(lambda text: text + "\n"),
)
def test_percent_signs_survive_the_way_there_and_back(text: str, stdin: str | None) -> None:
    """But for input lines that end in a backslash, which cron cannot be told."""
    cannot = stdin is not None and any(line.endswith("\\") for line in stdin.split("\n"))
    found = split_percent(join_percent(text, stdin))
    assert cannot or (text, stdin) == (found.text, found.stdin)


@pytest.mark.parametrize(
    ("raw", "text", "stdin"),
    [
        ("cat%one%two\\%x%thr\\ee\\\\", "cat", "one\ntwo%x\nthr\\ee\\\\\n"),
        ("cat > double \\\\%after", "cat > double \\", "after\n"),
        ("printf '[\\%s]\\n' 'a\\\\b' 'c\\d'", "printf '[%s]\\n' 'a\\b' 'c\\d'", None),
        ("cat%", "cat", ""),
        ("cat%a%", "cat", "a\n"),
        ("cat%%", "cat", "\n"),
    ],
)
def test_percent_signs_are_read_as_cron_reads_them(raw: str, text: str, stdin: str | None) -> None:
    """The first three were run by Debian's cron 3.0pl1-162, which did just this."""
    found = split_percent(raw)
    assert (text, stdin) == (found.text, found.stdin)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("date +", False),
        ('date +"', True),
        ("a $(date +", True),
        ("a `date +", True),
        ("sleep $(( RANDOM ", True),
        ("echo ')' \"(\" \\( it\\'s", False),
        ('echo "$(a)" "it\'s"', False),
        ('echo "$(a', True),
        ("awk 'x", True),
        ("(a; b) | c", False),
    ],
)
def test_a_command_that_a_percent_sign_cuts_in_two_is_recognised(text: str, cut: bool) -> None:
    """By what a shell would still wait for."""
    assert is_cut_short(text) is cut


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("[ -x /bin/none ] && echo hi", True),
        ("test -f /none && echo hi", True),
        ("[[ -f /none ]] && echo hi", True),
        ("! test -d / && echo hi", True),
        ("cd / && [ -x /bin/none ] && echo hi", True),
        ("true; [ -x /bin/none ] && echo hi", True),
        ("[ -x /bin/none ] && echo hi;", True),
        ("[ -x /bin/none ] && if true; then echo hi; fi", True),
        ("/usr/bin/test -f /none && echo hi", True),
        ("command -v none-such >/dev/null && echo hi", True),
        ("type none-such >/dev/null 2>&1 && echo hi", True),
        ("grep -sq b /none && echo hi", True),
        ("command -v none-such >/dev/null || exit 0; echo hi", False),
        ("[ -x /bin/none ] || exit 0; echo hi", False),
        ("test -x /bin/none || echo hi", False),
        ("[ -x /bin/none ] && echo hi || true", False),
        ("[ -x /bin/none ] && echo hi; true", False),
        ("[ -x /bin/none ] && echo hi &", False),
        ("if [ -x /bin/none ]; then echo hi; fi", False),
        ("echo '[ -x /bin/none ] && echo hi'", False),
        ("echo hi && echo ho", False),
        ("echo $([ -x /bin/none ] && echo hi)", False),
    ],
)
def test_a_command_that_ends_with_a_false_test_fails(text: str, fails: bool, tmp_path: Path) -> None:
    """As a shell says: cron looks at no exit code, and a run is judged by it."""
    assert fails is fails_where_a_test_is_false(text)
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, check=False)
    assert fails is (done.returncode != 0)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("flock -n lock true", True),
        ("/usr/bin/flock -n lock true", True),
        ("cd . && flock -xn lock true", True),
        ("flock --nonblock lock true", True),
        ("flock -n -E 0 lock true", False),
        ("flock -n --conflict-exit-code 0 lock true", False),
        ("flock -n lock true || true", False),
        ("flock -n lock true; true", False),
        ("flock -n lock true | cat", False),
        ("flock -n lock true &", False),
        ("flock -w 0.01 -E 0 lock true", False),
        ("flock other true", False),
        ("echo 'flock -n lock true'", False),
    ],
)
def test_a_command_that_finds_its_lock_held_fails(text: str, fails: bool, tmp_path: Path) -> None:
    """As flock says: two runs of a minute that are kept apart by it are one failure."""
    assert fails is fails_where_a_lock_is_held(text)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, check=False)
    assert fails is (done.returncode == 1)
