"""The pod of a Kubernetes Job as a shell task: its one container's command, with the variables and folder it has.

    workingDir: /app                        cd /app || exit
    env: [{name: DAY, value: today}]        export DAY=today
    command: ["/bin/report"]         ──►    exec /bin/report --day=today "--token=${TOKEN}"
    args: ["--day=$(DAY)", "--token=$(TOKEN)"]

`$(NAME)` is filled in as the kubelet does it: with values that the manifest has at once, with those that come from
elsewhere (secrets, config maps, the pod itself) when the task runs. A container without a command runs what its image
says, which is not known here: that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping as Mappings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tickwise.importers.translation import (
    MAX_ARGUMENTS,
    MAX_COMMAND_CHARACTERS,
    VARIABLE,
    Reference,
    Untranslatable,
    Words,
    check_arguments,
    command_line,
    exports,
    joined,
    listed,
    program_task,
    shell_task,
)
from tickwise.importers.yaml_nodes import Mapping

MAX_CONTAINERS: Final = 20
MAX_VARIABLES: Final = 1_000
_POD: Final = frozenset(
    {
        "containers", "initContainers", "restartPolicy", "activeDeadlineSeconds",
        # They are about images, pods and clusters, none of which there is here.
        "imagePullSecrets", "schedulerName", "dnsPolicy", "terminationGracePeriodSeconds", "enableServiceLinks",
        "automountServiceAccountToken", "serviceAccount",
    }
)  # fmt: skip
_CONTAINER: Final = frozenset(
    {
        "name", "image", "command", "args", "env", "envFrom", "workingDir", "imagePullPolicy", "terminationMessagePath",
        "terminationMessagePolicy", "stdin", "stdinOnce", "tty",
    }
)  # fmt: skip
_SOURCES: Final = {"secretKeyRef": "secret", "configMapKeyRef": "config map"}
GROUPS: Final = {"secretRef": "secret", "configMapRef": "config map"}

PodValues = dict[str, Words]
"""Variables in their order. One whose value is not in the manifest is a reference to itself."""


def pod_task(pod: Mapping, changes: list[str]) -> Mappings[str, Any]:
    """The task; what it lacks of the pod goes to `changes`. Raises `Untranslatable`."""
    container = only_container(pod)
    first = pod.mappings("initContainers", MAX_CONTAINERS)
    before: list[str] = []
    for each in first:
        if each.text("restartPolicy") == "Always":
            raise Untranslatable("an init container with restartPolicy Always runs beside the others; leave it out")
        before += ["(", *_lines(_program(each, changes)), ") || exit"]
    if first:
        changes.append("its init containers run first, one after another, as parts of the same command")
    program = _program(container, changes)
    needs_shell = bool(before or program.variables or program.folder)
    task = None if needs_shell else program_task(program.arguments)
    left_out = [name for name in pod.names() if name not in _POD]
    left_out += [name for each in (*first, container) for name in each.names() if name not in _CONTAINER]
    if left_out:
        changes.append(
            f"left out, because the executor's machine is no pod: {listed(left_out)}; `requires` chooses executors by "
            "their labels"
        )
    return task or shell_task([*before, *_lines(program)])


def only_container(pod: Mapping) -> Mapping:
    """The container of a pod that has one. Raises `Untranslatable`."""
    containers = pod.mappings("containers", MAX_CONTAINERS)
    if len(containers) != 1:
        names = listed(container.text("name") or "?" for container in containers)
        raise Untranslatable(
            f"the pod has {len(containers)} containers ({names or 'none'}), but a job runs one command; keep the one "
            "that does the work"
        )
    return containers[0]


class _Program(NamedTuple):
    """The program that a container starts."""

    arguments: Sequence[Words]
    variables: Mappings[str, Words]
    """The variables with a value in the manifest."""
    folder: str | None


def _program(container: Mapping, changes: list[str]) -> _Program:
    values = _variables(container, changes)
    arguments = _arguments(container, values)
    image = container.text("image")
    if image:
        changes.append(f"the image {image[:200]} is not used: the command runs on the executor's machine")
    own = {name: value for name, value in values.items() if _is_own(name, value)}
    return _Program(arguments, own, container.text("workingDir"))


def _lines(program: _Program) -> list[str]:
    """The program for a shell."""
    folder = [f"cd {command_line([(program.folder,)])} || exit"] if program.folder else []
    return [*exports(program.variables), *folder, f"exec {command_line(program.arguments)}"]


def _is_own(name: str, value: Words) -> bool:
    """Check whether the manifest gives the variable's value; a variable from elsewhere refers to itself."""
    return value != (Reference(name),)


def _arguments(container: Mapping, values: PodValues) -> Sequence[Words]:
    command = container.texts("command", MAX_ARGUMENTS)
    given = container.texts("args", MAX_ARGUMENTS)
    image = (container.text("image") or "it names")[:200]
    if not command:
        lacks = "only args for the program" if given else "no command, so it runs the program"
        raise Untranslatable(
            f"the container has {lacks} that the image {image} names, which is not known here; write its `command`"
        )
    from_elsewhere = bool(container.sequence("envFrom", MAX_VARIABLES))
    total = 0
    arguments: list[Words] = []
    for text in (*command, *given):
        total += len(text)
        if total > MAX_COMMAND_CHARACTERS:
            break
        arguments.append(filled(text, values, from_elsewhere=from_elsewhere))
    else:
        check_arguments(arguments)
        return arguments
    raise Untranslatable(f"the command has more than {MAX_COMMAND_CHARACTERS} characters; put it into a script")


def _variables(container: Mapping, changes: list[str]) -> PodValues:
    """The variables in their order; one whose value is not in the manifest is a reference to itself."""
    values: PodValues = {}
    elsewhere: list[str] = []
    unusable: list[str] = []
    groups = container.mappings("envFrom", MAX_VARIABLES)
    for group in groups:
        elsewhere += names_of_sources(group, GROUPS)
    for variable in container.mappings("env", MAX_VARIABLES):
        name = variable.text("name") or ""
        source = variable.mapping("valueFrom")
        if not VARIABLE.fullmatch(name):
            unusable.append(name)
        elif source is None:
            values[name] = filled(variable.text("value") or "", values, from_elsewhere=bool(groups))
        else:
            values[name] = (Reference(name),)
            elsewhere.append(f"{name} from {source_of(source)}")
    if elsewhere:
        changes.append(f"give these variables to the executor, they are not in the manifest: {listed(elsewhere)}")
    if unusable:
        changes.append(f"these variables have names that a shell cannot set, and are left out: {listed(unusable)}")
    return values


def source_of(value: Mapping) -> str:
    """The object that `valueFrom` names, in words."""
    return next(iter(names_of_sources(value, _SOURCES)), "the pod itself")


def names_of_sources(given: Mapping, kinds: Mappings[str, str]) -> list[str]:
    """The objects that a value comes from, in words: `config map settings`."""
    found = []
    for field, kind in kinds.items():
        reference = given.mapping(field)
        if reference is not None:
            found.append(f"{kind} {(reference.text('name') or '?')[:60]}")
    return found


def filled(text: str, values: PodValues, *, from_elsewhere: bool) -> Words:
    """`$(NAME)` filled in: an unknown name stays as it is, `$$` is a dollar sign."""
    parts: list[str | Reference] = []
    position = size = 0
    while (sign := text.find("$", position)) >= 0:
        parts.append(text[position:sign])
        position = sign + 2
        following = text[sign + 1 : sign + 2]
        end = text.find(")", position) if following == "(" else -1
        name = text[position:end] if end >= 0 else ""
        if end >= 0 and name in values:
            parts += values[name]
            size += sum(map(len, map(str, values[name])))
            position = end + 1
        elif end >= 0 and from_elsewhere and VARIABLE.fullmatch(name):
            parts.append(Reference(name))
            position = end + 1
        else:
            parts.append("$" if following == "$" else f"${following}")
        if size > MAX_COMMAND_CHARACTERS:
            raise Untranslatable(f"variables make a text of more than {MAX_COMMAND_CHARACTERS} characters; shorten it")
    parts.append(text[position:])
    return joined(parts)
