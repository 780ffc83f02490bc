"""An attack as data: what is tried, what a task runs for it, and what is to come of it at each level.

    @attack(FILES, process=stopped("it is root's"), sandbox=stopped("it is not mounted"))
    def shadow(host: Host) -> object:
        '''Read the password hashes of the machine, `/etc/shadow`.'''
        return read("/etc/shadow")

The first sentence of the docstring is the column "tried" of the table. What the function returns is what it got;
nothing, or an `OSError`, means that it was stopped. The text of the function is sent, behind that of `toolkit`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol

from tests.security.isolation import toolkit
from tests.security.isolation.toolkit import Host
from tickwise.domain.rules.confinement import Isolation

FILES: Final = "Files of the machine"
PROCESSES: Final = "Processes, memory, signals"
NAMESPACES: Final = "Mounts and namespaces"
KERNEL: Final = "The kernel and its devices"
NETWORK: Final = "The network"
AMOUNTS: Final = "Using up the machine"
LEFT: Final = "What stays after the end"
HANDED: Final = "What is handed to the executor"
GROUPS: Final = (FILES, PROCESSES, NAMESPACES, KERNEL, NETWORK, AMOUNTS, LEFT, HANDED)


class Verdict(StrEnum):
    """What comes of an attack."""

    STOPPED = "stopped"
    OPEN = "open"
    """It gets what it wants, and this page says so."""
    DEPENDS = "depends"
    """The machine's own settings decide."""


class Expected(NamedTuple):
    """What is to come of an attack, and by what."""

    verdict: Verdict
    because: str


def stopped(by: str) -> Expected:
    """It gets nothing."""
    return Expected(Verdict.STOPPED, by)


def reached(because: str) -> Expected:
    """It gets what it wants."""
    return Expected(Verdict.OPEN, because)


def depends(on: str) -> Expected:
    """The machine decides."""
    return Expected(Verdict.DEPENDS, on)


class Look(Protocol):
    """What a check after the end of a run is told."""

    host: Host
    run: Mapping[str, Any]
    """As the API answers it."""

    def artefacts(self) -> Mapping[str, bytes]:
        """The contents of the files that were kept, by name."""
        ...

    def output(self) -> bytes:
        """The log of the run."""
        ...

    def processes(self) -> list[str]:
        """The processes of the machine whose arguments have the token."""
        ...


Act = Callable[[Host], object]


@dataclass(frozen=True)
class Attack:
    """One of them."""

    act: Act
    group: str
    expected: Mapping[tuple[Isolation, str], Expected]
    """By the level, and by the executor's user: `root` or `ordinary`. Where there is none, it is not tried."""
    is_quick: bool
    after: Callable[[Look], object] | None
    """Looks from outside, after the end of the run, at what came of it: what it returns is what the attack got."""
    then: Act | None
    """A second task of the same namespace, after the first: what this one returns is what the attack got."""
    tells: bool
    """Whether it hands in a result of its own."""
    is_shown: bool
    """Whether it gets what it wants where nothing stops it: as root, without a scheduler."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the job: limits, a timeout."""
    ends: frozenset[str] = frozenset()
    """Reasons of a run that did not come to its end, which mean that the attack was stopped."""

    @property
    def name(self) -> str:
        """Of the function."""
        return str(getattr(self.act, "__name__", ""))

    @property
    def tried(self) -> str:
        """What is tried, in a sentence."""
        text = inspect.getdoc(self.act)
        assert text, f"{self.name} does not say what it tries"
        return " ".join(text.split("\n\n")[0].split())

    def script(self, act: Act, host: Host) -> str:
        """What the task runs."""
        call = f"run({act.__name__}, {json.dumps(host._asdict())!r})\n"
        return "\n\n".join([inspect.getsource(toolkit), *_names(act), _text(act), call])


def _text(act: Act) -> str:
    """The function without what decorates it."""
    lines = inspect.getsource(act).splitlines(keepends=True)
    (begin, *_) = [place for place, line in enumerate(lines) if line.startswith("def ")]
    return "".join(lines[begin:])


def _names(act: Act) -> list[str]:
    """The constants and modules of its own module that the function uses, as statements."""
    function = inspect.unwrap(act)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    found = []
    for name in sorted(names & vars(inspect.getmodule(act)).keys() - vars(toolkit).keys()):
        value = getattr(inspect.getmodule(act), name)
        if inspect.ismodule(value):
            found.append(f"import {name}")
        elif isinstance(value, int | str):
            found.append(f"{name} = {value!r}")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


ATTACKS: Final[dict[str, Attack]] = {}


def attack(
    group: str,
    *,
    process: Expected,
    sandbox: Expected,
    ordinary: Expected | None = None,
    with_root_alone: bool = False,
    quick: bool = False,
    after: Callable[[Look], object] | None = None,
    then: Act | None = None,
    tells: bool = True,
    is_shown: bool = True,
    job: Mapping[str, Any] | None = None,
    ends: frozenset[str] = frozenset(),
) -> Callable[[Act], Act]:
    """Register an attack. `ordinary`: what is to come of it in a process where the executor is no root, if that differs
    from `process`; `with_root_alone`: what is attacked is there with root's executor alone."""
    expected = {(Isolation.PROCESS, "root"): process, (Isolation.SANDBOX, "root"): sandbox}
    if not with_root_alone:
        expected |= {(Isolation.PROCESS, "ordinary"): ordinary or process, (Isolation.SANDBOX, "ordinary"): sandbox}

    def register(act: Act) -> Act:
        made = Attack(act, group, expected, quick, after, then, tells, is_shown, job or {}, ends)
        assert made.name not in ATTACKS, f"there are two attacks {made.name}"
        assert group in GROUPS, group
        assert made.tried
        ATTACKS[made.name] = made
        return act

    return register
