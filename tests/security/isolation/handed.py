"""Attacks through what the executor takes from a task: its result, its artefacts, its folder."""

from __future__ import annotations

import contextlib
import os

from tests.security.isolation.attacks import HANDED, Look, attack, stopped
from tests.security.isolation.toolkit import Host

PLAIN_FILE = stopped("a result is a plain file of the task's user with one name")
NO_LINKS = stopped("no link is followed, and nothing but a plain file of the task's own user is kept")
NAMES = stopped("a name with a control character is not kept; others are data, and no path on the executor")


def _has_result(look: Look) -> object:
    return look.run.get("result")


def _has_canary(look: Look) -> object:
    return [name for name, content in look.artefacts().items() if look.host.canary.encode() in content]


def _has_lost(look: Look) -> object:
    """What was the machine's is gone or changed."""
    with open(look.host.public_file, "rb") as file:
        return file.read() != look.host.canary.encode()


def _is_misnamed(look: Look) -> object:
    return [
        name for name in look.artefacts() if not name.isprintable() or name.startswith("/") or ".." in name.split("/")
    ]


@attack(
    HANDED,
    process=PLAIN_FILE,
    sandbox=PLAIN_FILE,
    after=_has_result,
    tells=False,
    is_shown=False,
    quick=True,
)
def result_by_a_symbolic_link(host: Host) -> object:
    """Hand in a symbolic link to the admin key as its result, for root's executor to read."""
    os.symlink(host.data_dir + "/client.json", os.environ["TICKWISE_RESULT_FILE"])
    return None


@attack(HANDED, process=PLAIN_FILE, sandbox=PLAIN_FILE, after=_has_result, tells=False, is_shown=False)
def result_by_a_hard_link(host: Host) -> object:
    """Hand in a hard link to a file of the machine as its result."""
    with contextlib.suppress(OSError):
        os.link(host.public_file, os.environ["TICKWISE_RESULT_FILE"])
    return None


@attack(HANDED, process=PLAIN_FILE, sandbox=PLAIN_FILE, after=_has_result, tells=False, is_shown=False)
def result_that_never_ends(host: Host) -> object:
    """Hand in a pipe that nobody writes to (FIFO) as its result, for the executor to wait at."""
    os.mkfifo(os.environ["TICKWISE_RESULT_FILE"])
    return None


@attack(HANDED, process=PLAIN_FILE, sandbox=PLAIN_FILE, after=_has_result, tells=False, is_shown=False)
def result_that_is_a_folder(host: Host) -> object:
    """Hand in a folder, with a file in it, as its result."""
    os.mkdir(os.environ["TICKWISE_RESULT_FILE"])
    with open(os.environ["TICKWISE_RESULT_FILE"] + "/file", "w") as file:
        file.write("x")
    return None


@attack(HANDED, process=PLAIN_FILE, sandbox=PLAIN_FILE, after=_has_result, tells=False, is_shown=False)
def result_that_is_a_socket(host: Host) -> object:
    """Hand in a socket as its result."""
    import socket

    folder, name = os.path.split(os.environ["TICKWISE_RESULT_FILE"])
    os.chdir(folder)
    socket.socket(socket.AF_UNIX).bind(name)
    return None


@attack(HANDED, process=NO_LINKS, sandbox=NO_LINKS, after=_has_canary, tells=False, is_shown=False)
def artefact_by_a_link(host: Host) -> object:
    """Leave symbolic links to a file of the machine, and to its folder, as artefacts."""
    os.symlink(host.public_file, "report.txt")
    os.symlink(os.path.dirname(host.public_file), "reports")
    return None


@attack(HANDED, process=NO_LINKS, sandbox=NO_LINKS, after=_has_canary, tells=False, is_shown=False)
def artefact_that_changes(host: Host) -> object:
    """Swap a folder with a link to a folder of the machine, again and again, while the executor looks."""
    os.mkdir("folder")
    with open("folder/canary", "w") as file:
        file.write("its own")
    os.symlink(os.path.dirname(host.public_file), "link")
    if os.fork() == 0:
        os.setsid()
        while True:
            for old, new in (("folder", "kept"), ("link", "folder"), ("folder", "link"), ("kept", "folder")):
                try:
                    os.rename(old, new)
                except OSError:
                    os._exit(0)
    return None


@attack(HANDED, process=NAMES, sandbox=NAMES, after=_is_misnamed, tells=False, is_shown=False)
def names_of_artefacts(host: Host) -> object:
    """Leave artefacts whose names hold dots, escapes, line breaks, codes for terminals or bytes that are no text."""
    names = (
        "..%2f..%2fetc%2fpasswd",
        "...",
        "..\\..\\x",
        "a\nb",
        "\x1b]0;title\x07",
        "\u202egnp.exe",
        "CON",
        "-rf",
        "*",
    )
    for name in names:
        with open(name, "w") as file:
            file.write("x")
    os.close(os.open(b"\xff\xfe", os.O_CREAT | os.O_WRONLY))
    return None


@attack(
    HANDED,
    process=stopped("a folder is removed without following a link"),
    sandbox=stopped("a folder is removed without following a link"),
    after=_has_lost,
    tells=False,
    is_shown=False,
)
def folder_that_is_removed(host: Host) -> object:
    """Leave links to folders of the machine for root's executor, which removes the work folder."""
    os.symlink(os.path.dirname(host.public_file), "folder")
    os.makedirs("deep/" * 40, exist_ok=True)
    os.symlink(os.path.dirname(host.public_file), "deep/" * 40 + "folder")
    os.chmod("deep", 0o500)
    return None


@attack(
    HANDED,
    process=stopped("no one else may look into its folder, and a name there is opened without following links"),
    sandbox=stopped("no one else may look into its folder, and a name there is opened without following links"),
    after=_has_lost,
    tells=False,
    is_shown=False,
)
def folder_in_place_of_its_own(host: Host) -> object:
    """Put a link to a folder of the machine in the place of its own work folder."""
    own = os.getcwd()
    try:
        os.rename(own, own + "-old")
        os.symlink(os.path.dirname(host.public_file), own)
    except OSError:
        return None
    return None
