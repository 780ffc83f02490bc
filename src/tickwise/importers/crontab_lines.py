"""The lines of a crontab: assignments, comments, entries; and whether entries name a user before their command.

    # comment            a block of them directly above an entry describes it
    NAME=value           for the entries below it
    5 4 * * * command    of a user's crontab
    5 4 * * * www-data command    of /etc/crontab and of the files in /etc/cron.d

Nothing in a file says of which kind it is, so `is_system` weighs the evidence: where the file comes from, the head that
distributions put on it, and words that are users or programs nearly everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tickwise.domain.cron import expression as cron
from tickwise.domain.errors import Invalid
from tickwise.importers.crontab_times import take_words

OUR_COMMENT: Final = "Tickwise:"
"""Begins the comments that an exported crontab has about itself; they describe no entry."""

USERS: Final = frozenset(
    {
        "root", "daemon", "bin", "sys", "adm", "lp", "uucp", "proxy", "www-data", "www", "apache", "httpd", "nginx",
        "nobody", "operator", "postgres", "munin", "nagios", "smmsp", "logcheck", "amavis", "clamav", "irc", "list",
        "user", "username", "ubuntu", "debian", "vagrant", "ec2-user", "jenkins", "tomcat", "asterisk", "messagebus",
        "git-daemon", "oracle", "deploy", "zabbix", "vmail", "wwwrun", "toor",
    }
)  # fmt: skip
"""Users that are on many machines, and no programs."""

NEVER_PROGRAMS: Final = frozenset({"root", "www-data", "nobody", "postgres", "ubuntu", "vagrant", "ec2-user", "toor"})
"""The users that are a command on no machine: in the place of a command, such a word is a user."""

PROGRAMS: Final = frozenset(
    {
        "cd", "test", "[", "[[", "if", "for", "while", "echo", "printf", "true", "false", "env", "exec", "export",
        "set", "sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "python", "python2", "python3", "perl", "php",
        "ruby", "node", "java", "make", "sudo", "nice", "ionice", "timeout", "flock", "nohup", "sleep", "date", "rm",
        "cp", "mv", "ls", "cat", "find", "tar", "gzip", "rsync", "curl", "wget", "ssh", "scp", "docker", "kubectl",
        "service", "systemctl", "run-parts", "command", "cmd", "touch", "mkdir", "chown", "chmod", "logger",
        "mysqldump", "pg_dump", "psql", "certbot", "apt", "apt-get", "yum", "npm", "npx", "pip", "killall", "kill",
        "reboot", "shutdown", "bundle", "source", ".", ":", "(", "{", "!", "awk", "sed", "grep", "ps", "df", "du",
        "crontab", "poetry", "uv",
    }
)  # fmt: skip
"""Programs that are on many machines, and no users."""

_USER: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\$?(?::[A-Za-z0-9_.-]{1,64})?(?:/[A-Za-z0-9_.-]{1,64})?", re.ASCII
)
_SYSTEM_PLACE: Final = re.compile(r"(?:.*/)?(?:etc/(?:ana)?crontab|cron\.d/[^/]+)")
_USER_PLACE: Final = re.compile(r"(?:.*/)?(?:var/spool/cron(?:/crontabs|/tabs)?|var/cron/tabs|etc/crontabs)/[^/]+")
"""The folders of daemons. A folder that is just called `crontabs` may be a collection of any kind."""
_SYSTEM_HEAD: Final = re.compile(
    r"#.*\b(?:dow|wday|week|mon)\b.*\b(?:user|username|user-name|who)\s+command\b", re.IGNORECASE
)
_USER_HEAD: Final = re.compile(r"#\s*m\s+h\s+dom\s+mon\s+dow\s+command\b", re.IGNORECASE)


def looks_like_user(word: str) -> bool:
    """Check whether the word could be the name of a user (FreeBSD adds a group and a class), and is no well-known
    program."""
    return _USER.fullmatch(word) is not None and word not in PROGRAMS


def is_system(source: str, lines: Sequence[str]) -> bool:
    """Check whether the entries of this file name a user. `source`: the file's origin; `lines`: without line breaks."""
    place = source.replace("\\", "/")[-1_000:]
    if _SYSTEM_PLACE.fullmatch(place):
        return True
    if _USER_PLACE.fullmatch(place):
        return False
    if any(_USER_HEAD.match(line) for line in _short(lines)):
        return False
    if any(_SYSTEM_HEAD.match(line) for line in _short(lines)):
        return True
    votes = [vote for line in lines if (vote := _vote(line)) is not None]
    return sum(votes) * 2 > len(votes)


def _short(lines: Iterable[str]) -> Iterable[str]:
    """Comments of a length that a table's head has."""
    return (line for line in lines if line.startswith("#") and len(line) <= 200)


def _vote(line: str) -> bool | None:
    """Check whether the word after the times is a user. None: the line does not say."""
    fields = 1 if line.lstrip(" \t").startswith("@") else 5
    times, rest = take_words(line[:500], fields)
    words, _ = take_words(rest, 2)
    if len(times) < fields or not words or not _is_time(times):
        return None
    if words[0] in USERS:
        return True
    if not looks_like_user(words[0]):
        return False
    # No program takes the begin of another command as its first argument.
    return True if len(words) == 2 and words[1] in ("[", "test", "cd", "if", "(") else None


def _is_time(words: Sequence[str]) -> bool:
    if words[0].startswith("@"):
        return True
    return words[0][0] in "*0123456789-" and not any("=" in word for word in words)


# --------------------------------------------------------------------------------------------------- assignments


_ASSIGNMENT: Final = re.compile(r"""[ \t]*(?:"([^"]*)"|'([^']*)'|([^\s="']+))[ \t]*=[ \t]*(.*)""", re.DOTALL)
_LOOKS_ASSIGNED: Final = re.compile(r"[ \t]*[A-Za-z_][A-Za-z0-9_]*[ \t]*=", re.ASCII)


def assignment(line: str) -> tuple[str, str] | None:
    """The variable and the value that a line sets; None if it sets none, which cron then takes for an entry."""
    match = _ASSIGNMENT.fullmatch(line)
    if match is None:
        return None
    name = match.group(1) or match.group(2) or match.group(3) or ""
    value = match.group(4).rstrip(" \t")
    if value[:1] in ("'", '"') and value:
        end = value.find(value[0], 1)
        return (name, value[1:end]) if end == len(value) - 1 else None
    return name, value


def is_broken_assignment(line: str) -> bool:
    """Check whether the line was meant as an assignment, and cron takes it for an entry because of the text after the
    value."""
    return _LOOKS_ASSIGNED.match(line) is not None and assignment(line) is None


# ------------------------------------------------------------------------------------------------------ comments


_NO_DESCRIPTION: Final = re.compile(
    r"m(?:in(?:ute)?s?)?\s+h(?:our)?s?\b.*|.*\bDO NOT EDIT THIS FILE\b.*|\(.*installed on .*\)|\(Cron version .*\)"
    r"|[A-Z_]+\s*=.*|" + OUR_COMMENT + ".*",
    re.DOTALL,
)


def description(comments: Sequence[str]) -> str:
    """The description of an entry from the comments above it, without disabled lines, drawings and the table's head."""
    texts = (comment.lstrip(" \t").lstrip("#").strip() for comment in comments)
    return "\n".join(text for text in texts if _describes(text))


def _describes(text: str) -> bool:
    if not any(sign.isalnum() for sign in text) or _NO_DESCRIPTION.fullmatch(text[:1_000]):
        return False
    fields = 1 if text.startswith("@") else 5
    times, rest = take_words(text[:500], fields)
    if not rest or len(times) < fields:
        return True
    try:
        cron.parse(" ".join(times))
    except Invalid:
        return times[0].lower() not in ("@reboot", "@every")
    return False
