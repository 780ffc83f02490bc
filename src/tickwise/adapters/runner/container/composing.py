"""The container of an attempt, in the words of the engine's API. Pure.

What every container has: a read-only system with a /tmp in memory, no capabilities, no new privileges, the engine's
default seccomp profile, no network unless its job asks for it, a limit of processes, an init that passes signals on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.engine import ImageFacts
from tickwise.adapters.runner.container.handover import (
    LAUNCHER,
    PAYLOAD,
    RESULT,
    SYMPTOMS,
    WORK,
    launcher_source,
)
from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.containers import MOUNT_REFUSED, ContainerPolicy
from tickwise.adapters.runner.context import PAYLOAD_VARIABLE_LIMIT_BYTES, attempt_environment
from tickwise.adapters.runner.process.start import PYTHON_SCRIPT, SHELL_SCRIPT, TaskText
from tickwise.ports.runner import Assignment

SHELL: Final = "/bin/sh"
PYTHON: Final = "python3"
NOBODY: Final = "65534:65534"
TMP: Final = "rw,nosuid,nodev,exec,size=268435456,mode=1777"
"""Of /tmp, 256 MiB. It counts as memory of the task."""
LABEL: Final = "tickwise."
INSTALLATION: Final = f"{LABEL}installation"
EXECUTOR: Final = f"{LABEL}executor"
NAMESPACE: Final = f"{LABEL}namespace"
RUN: Final = f"{LABEL}run"
ATTEMPT: Final = f"{LABEL}attempt"
TOKEN: Final = f"{LABEL}token"
_ROOT: Final = re.compile(r"(0+|root)?(:.*)?")


class Handed(NamedTuple):
    """The files that a container gets, by their whole paths, and the program that it runs."""

    files: Mapping[str, bytes]
    program: Sequence[str] | None
    """None: the image's own entry point."""
    arguments: Sequence[str] | None
    """None: those of the image."""


def handed(assignment: Assignment, text: TaskText) -> Handed:
    """The files and the program of an attempt."""
    task = assignment.task
    files = {f"{WORK}/{name}": content for name, content in text.files.items()}
    if len(assignment.payload) > PAYLOAD_VARIABLE_LIMIT_BYTES:
        files[PAYLOAD] = assignment.payload
    if text.source is not None:
        script = f"{WORK if text.files else OWN_FOLDER}/{PYTHON_SCRIPT}"
        files[script] = text.source
        program = [str(task.get("python") or PYTHON)]
        if assignment.names_errors:
            files[LAUNCHER] = launcher_source()
            program += [LAUNCHER, script, SYMPTOMS]
        else:
            program.append(script)
        return Handed(files, program[:1], program[1:])
    command = task.get("command")
    if isinstance(command, str):
        script = f"{OWN_FOLDER}/{SHELL_SCRIPT}"
        files[script] = f"{command}\n".encode()
        return Handed(files, [SHELL], [script])
    if "argv" in task:
        return Handed(files, list(task["argv"][:1]), list(task["argv"][1:]))
    return Handed(files, task.get("entrypoint"), command)


def environment_of(assignment: Assignment, passed: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of an attempt: those that the executor passes on, its task's own with the values of its secrets,
    and the facts of the attempt."""
    own = {
        name: assignment.secrets[value].decode() if value in assignment.secrets else value
        for name, value in assignment.task.get("env", {}).items()
    }
    facts = {**attempt_environment(assignment), "TICKWISE_RESULT_FILE": RESULT, "TICKWISE_WORK_FOLDER": WORK}
    if len(assignment.payload) <= PAYLOAD_VARIABLE_LIMIT_BYTES:
        facts["TICKWISE_PAYLOAD"] = assignment.payload.decode()
    else:
        facts["TICKWISE_PAYLOAD_FILE"] = PAYLOAD
    return {**passed, **own, **facts}


def labels_of(assignment: Assignment, policy: ContainerPolicy, executor: str) -> Mapping[str, str]:
    """The marks of a container, by which a sweep finds it."""
    return {
        INSTALLATION: policy.installation,
        EXECUTOR: executor,
        NAMESPACE: assignment.namespace,
        RUN: str(assignment.run_id),
        ATTEMPT: str(assignment.attempt),
        TOKEN: str(assignment.token),
    }


def container_config(
    assignment: Assignment,
    image: ImageFacts,
    given: Handed,
    policy: ContainerPolicy,
    environment: Mapping[str, str],
    labels: Mapping[str, str],
) -> Mapping[str, Any]:
    """The body of the call that makes the container. Raises `ContainerFault` for a mount that is not allowed."""
    task, limits = assignment.task, assignment.limits
    is_script = task["kind"] != "container"
    folder = task.get("directory") or WORK if is_script else task.get("working_dir")
    host: dict[str, Any] = {
        "NetworkMode": policy.network if assignment.confinement.allow_network is True else "none",
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": TMP},
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": limits.processes or policy.processes,
        "Init": True,
        "LogConfig": {"Type": "json-file", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "Mounts": [_mount(each, policy) for each in task.get("mounts", ())],
    }
    if limits.memory_bytes is not None:
        host |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if task.get("cpus") is not None:
        host["NanoCpus"] = round(task["cpus"] * 1e9)
    config: dict[str, Any] = {
        "Image": image.image_id,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": dict(labels),
        "User": task.get("user") or (NOBODY if _ROOT.fullmatch(image.user) else image.user),
        "Volumes": {OWN_FOLDER: {}},
        "AttachStdin": False,
        "OpenStdin": False,
        "Tty": False,
        "HostConfig": host,
    }
    if folder:
        config["WorkingDir"] = folder
    if given.program is not None:
        config["Entrypoint"] = list(given.program)
        config["Cmd"] = list(given.arguments or ())
    elif given.arguments is not None:
        config["Cmd"] = list(given.arguments)
    return config


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
