"""The container of an attempt, in the words of the engine's API. Pure.

What every container has: a read-only system with a /tmp in memory, no capabilities, no new privileges, the engine's
default seccomp profile, no network unless its job asks for it, a limit of processes, an init that passes signals on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.handover import (
    BEGUN,
    IDENTITY,
    LAUNCHER,
    PAYLOAD,
    RESULT,
    START,
    SYMPTOMS,
    WORK,
    launcher_source,
)
from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.container.prepared import PreparedImage
from tickwise.adapters.runner.container.start_script import SHELL, SHELL_READS, is_sayable, is_small, start_script
from tickwise.adapters.runner.containers import COMMAND_MISSING, CONTAINER_REFUSED, MOUNT_REFUSED, ContainerPolicy
from tickwise.adapters.runner.context import PAYLOAD_VARIABLE_LIMIT_BYTES, attempt_environment
from tickwise.adapters.runner.identity_file import VARIABLE
from tickwise.adapters.runner.process.start import PYTHON_SCRIPT, SHELL_SCRIPT, TaskText
from tickwise.adapters.runner.secret_values import FOLDER as SECRETS
from tickwise.adapters.runner.secret_values import secret_files, variables_of
from tickwise.ports.runner import Assignment

PYTHON: Final = "python3"
NOBODY: Final = "65534:65534"
TMP: Final = "rw,nosuid,nodev,exec,size=268435456,mode=1777"
"""Of /tmp, 256 MiB. It counts as memory of the task."""
_ROOT: Final = re.compile(r"(0+|root)?(:.*)?")


class TaskStart(NamedTuple):
    """Everything that the start of an attempt needs, before it is known how it comes into the container."""

    files: Mapping[str, bytes]
    """By their whole paths."""
    hidden_files: Mapping[str, bytes]
    """Those with secrets: they come in an archive alone."""
    variables: Mapping[str, bytes]
    hidden_variables: frozenset[str]
    """The names of those with secrets."""
    program: Sequence[str] | None
    """None: the image's own entry point."""
    arguments: Sequence[str] | None
    """None: those of the image."""
    folder: str | None
    """Its current folder; None: that of the image."""


class Handover(NamedTuple):
    """The way of a start into one container."""

    script: bytes | None
    """Said to the shell of the image; None: the engine starts the program."""
    archive: Mapping[str, bytes] | None
    """Files in an archive; None: none is needed."""
    shown: Mapping[str, bytes]
    """Variables that the engine knows and shows."""


def task_start(assignment: Assignment, text: TaskText, passed: Mapping[str, str]) -> TaskStart:
    """The start of an attempt. `passed`: the variables that the executor passes on."""
    task = assignment.task
    files = {f"{WORK}/{name}": content for name, content in text.files.items()}
    hidden = {f"{START}/{SECRETS}/{name}": assignment.secrets[said] for name, said in secret_files(assignment)}
    if assignment.identity_token is not None:
        hidden[IDENTITY] = assignment.identity_token.encode()
    if len(assignment.payload) > PAYLOAD_VARIABLE_LIMIT_BYTES:
        files[PAYLOAD] = assignment.payload
    program: Sequence[str] | None = task.get("entrypoint")
    arguments: Sequence[str] | None = None
    command = task.get("command")
    if text.source is not None:
        script = f"{WORK if text.files else START}/{PYTHON_SCRIPT}"
        files[script] = text.source
        program, arguments = [str(task.get("python") or PYTHON)], [script]
        if assignment.names_errors:
            files[LAUNCHER] = launcher_source()
            arguments = [LAUNCHER, script, SYMPTOMS]
    elif isinstance(command, str):
        script = f"{START}/{SHELL_SCRIPT}"
        files[script] = f"{command}\n".encode()
        program, arguments = [SHELL], [script]
    elif "argv" in task:
        program, arguments = list(task["argv"][:1]), list(task["argv"][1:])
    else:
        arguments = command
    folder = task.get("working_dir") if task["kind"] == "container" else task.get("directory") or WORK
    variables = _variables(assignment, passed)
    secrets = (name for name, said in task.get("env", {}).items() if said in assignment.secrets)
    in_files = {said for _, said in secret_files(assignment)}
    hidden_names = frozenset(name for name in secrets if task["env"][name] not in in_files)
    return TaskStart(files, hidden, variables, hidden_names, program, arguments, folder)


def _variables(assignment: Assignment, passed: Mapping[str, str]) -> Mapping[str, bytes]:
    """The variables of an attempt: those that the executor passes on, its task's own with the values of its secrets,
    and the facts of the attempt."""
    facts = {**attempt_environment(assignment), "TICKWISE_RESULT_FILE": RESULT, "TICKWISE_WORK_FOLDER": WORK}
    if assignment.identity_token is not None:
        facts[VARIABLE] = IDENTITY
    if len(assignment.payload) <= PAYLOAD_VARIABLE_LIMIT_BYTES:
        facts["TICKWISE_PAYLOAD"] = assignment.payload.decode()
    else:
        facts["TICKWISE_PAYLOAD_FILE"] = PAYLOAD
    said = {**passed, **variables_of(assignment, Path(START)), **facts}
    return {name: value.encode(errors="surrogateescape") for name, value in said.items()}


def handover_of(start: TaskStart, prepared: PreparedImage) -> Handover:
    """The way of a start into a container of its own. Raises `ContainerFault` for secrets that cannot get there."""
    everything = {**start.files, **start.hidden_files}
    words = _words(start, prepared)
    # Some shells drop variables whose names they could not set.
    is_small_start = bool(start.files) and _can_say_files(start) and all(map(is_sayable, start.variables))
    if start.hidden_variables:
        _check_hidden(start, prepared)
    elif not (prepared.has_folders and prepared.has_shell and is_small_start and words):
        archive = everything if everything or not prepared.has_folders else None
        return Handover(None, archive, start.variables)
    said = {name: value for name, value in start.variables.items() if is_sayable(name)}
    shown = {name: value for name, value in start.variables.items() if name not in said}
    if prepared.has_folders and _can_say_files(start):
        return Handover(_script(start, said, start.files, words), start.hidden_files or None, shown)
    archive = everything if everything or not prepared.has_folders else None
    return Handover(_script(start, said, {}, words), archive, shown)


def warm_handover_of(start: TaskStart, prepared: PreparedImage) -> Handover | None:
    """The way of a start into a container that was made before it; None: there is none."""
    words = _words(start, prepared)
    if not (prepared.has_folders and prepared.has_shell and words and all(map(is_sayable, start.variables))):
        return None
    if _can_say_files(start):
        return Handover(_script(start, start.variables, start.files, words), start.hidden_files or None, {})
    return Handover(_script(start, start.variables, {}, words), {**start.files, **start.hidden_files}, {})


def _words(start: TaskStart, prepared: PreparedImage) -> Sequence[str]:
    if start.program is not None:
        return (*start.program, *(start.arguments or ()))
    arguments = prepared.image.command if start.arguments is None else start.arguments
    return (*prepared.image.entrypoint, *arguments)


def _can_say_files(start: TaskStart) -> bool:
    """Those that travel with a task keep their mode, and lie in folders: they come in an archive."""
    return all(path.startswith(f"{START}/") and is_small(content) for path, content in start.files.items())


def _script(
    start: TaskStart, variables: Mapping[str, bytes], files: Mapping[str, bytes], words: Sequence[str]
) -> bytes:
    return start_script(variables, {BEGUN: b"", **files}, words, folder=WORK if start.folder == WORK else None)


def _check_hidden(start: TaskStart, prepared: PreparedImage) -> None:
    names = ", ".join(sorted(start.hidden_variables))
    cure = "write secret-file: in the place of secret:, and read the file that the variable names"
    if not prepared.has_shell:
        raise ContainerFault(
            COMMAND_MISSING, f"the image has no {SHELL}, by which secrets become variables ({names}): {cure}"
        )
    wrong = ", ".join(sorted(name for name in start.hidden_variables if not is_sayable(name)))
    if wrong:
        raise ContainerFault(
            CONTAINER_REFUSED, f"no shell can set the variable {wrong}: give it another name, or {cure}"
        )


def container_config(
    assignment: Assignment, prepared: PreparedImage, start: TaskStart, policy: ContainerPolicy
) -> Mapping[str, Any]:
    """The body of the call that makes a container whose program the engine starts, without variables and marks. Raises
    `ContainerFault` for a mount that is not allowed, and for an image without a program."""
    task, limits = assignment.task, assignment.limits
    host = _host(policy)
    host |= {
        "NetworkMode": policy.network if assignment.confinement.allow_network is True else "none",
        "PidsLimit": limits.processes or policy.processes,
        "Mounts": [_mount(each, policy) for each in task.get("mounts", ())],
    }
    if limits.memory_bytes is not None:
        host |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if task.get("cpus") is not None:
        host["NanoCpus"] = round(task["cpus"] * 1e9)
    config = _config(prepared, task.get("user"), host)
    if start.folder is not None:
        config["WorkingDir"] = start.folder
    if start.program is not None:
        config["Entrypoint"], config["Cmd"] = list(start.program), list(start.arguments or ())
        return config
    if prepared.image.entrypoint:  # podman takes an empty one for none said
        config["Entrypoint"] = list(prepared.image.entrypoint)
    config["Cmd"] = list(prepared.image.command if start.arguments is None else start.arguments)
    if not (prepared.image.entrypoint or config["Cmd"]):
        raise ContainerFault(COMMAND_MISSING, "the image names no program, and the task none either: give it a command")
    return config


def plain_config(prepared: PreparedImage, policy: ContainerPolicy) -> Mapping[str, Any]:
    """The body of the call that makes a container for a task that asks for nothing of its own, started by a shell."""
    return reading(_config(prepared, None, _host(policy)))


def reading(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of the given configuration, with a shell that reads its start."""
    read = {
        **config, "Entrypoint": list(SHELL_READS), "Cmd": [], "AttachStdin": True, "OpenStdin": True, "StdinOnce": True,
    }  # fmt: skip
    if read.get("WorkingDir") == WORK:
        del read["WorkingDir"]  # the script goes there
    return read


def _host(policy: ContainerPolicy) -> dict[str, Any]:
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": TMP},
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": policy.processes,
        "Init": True,
        "LogConfig": {"Type": "json-file", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "Mounts": [],
    }


def _config(prepared: PreparedImage, user: str | None, host: Mapping[str, Any]) -> dict[str, Any]:
    image = prepared.image
    return {
        "Image": prepared.made_from,
        "User": user or (NOBODY if _ROOT.fullmatch(image.user) else image.user),
        "Volumes": {OWN_FOLDER: {}},
        "AttachStdin": False,
        "OpenStdin": False,
        "Tty": False,
        "HostConfig": host,
    }


def _mount(said: Mapping[str, Any], policy: ContainerPolicy) -> Mapping[str, Any]:
    source, read_only = said["source"], said["read_only"]
    if source not in policy.mounts and not (read_only and f"{source}:ro" in policy.mounts):
        how = "" if read_only else " to write in"
        raise ContainerFault(
            MOUNT_REFUSED,
            f"this executor does not let tasks mount {source}{how}; TICKWISE_CONTAINER_MOUNTS names each folder that "
            "it allows, exactly",
        )
    return {"Type": "bind", "Source": source, "Target": said["target"], "ReadOnly": read_only}
