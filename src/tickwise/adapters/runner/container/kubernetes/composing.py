"""The Job and the Secret of an attempt, in the words of Kubernetes. Pure.

    Secret   script, files, payload, values of secrets, identity token: nothing of it is in the pod's specification
    Job      one pod, never a second one: no retries, no replacement. Kubernetes' own would be a start that the store
             does not know of

What every pod has unless the operator's template says otherwise: a user that is not root, a read-only system with a
/tmp in memory, no capabilities, no new privileges, the runtime's seccomp profile, no token of its service account, and
a process of the pod's own as process 1 (a shared process namespace), so that signals end what handles none.
"""

from __future__ import annotations

import base64
import io
import math
import re
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.composing import PYTHON
from tickwise.adapters.runner.container.handover import launcher_source
from tickwise.adapters.runner.container.kind import OWN_FOLDER
from tickwise.adapters.runner.container.kubernetes.entering import entry_source
from tickwise.adapters.runner.container.kubernetes.pods import TASK
from tickwise.adapters.runner.container.kubernetes.policy import JobPlace, overlaid
from tickwise.adapters.runner.container.names import ATTEMPT, RUN, TOKEN, executor_labels
from tickwise.adapters.runner.container.references import read_image
from tickwise.adapters.runner.container.start_script import SHELL
from tickwise.adapters.runner.containers import CONTAINER_REFUSED, MOUNT_REFUSED, ContainerPolicy
from tickwise.adapters.runner.context import PAYLOAD_VARIABLE_LIMIT_BYTES, attempt_environment
from tickwise.adapters.runner.identity_file import VARIABLE
from tickwise.adapters.runner.process.start import TaskText
from tickwise.domain.secrets.references import Injection
from tickwise.ports.runner import Assignment

IN: Final = f"{OWN_FOLDER}/in"
WORK: Final = f"{OWN_FOLDER}/work"
OUT: Final = f"{OWN_FOLDER}/out"
RESULT: Final = f"{OUT}/result.json"
SYMPTOMS: Final = f"{OUT}/symptoms"
SCRIPT: Final = f"{IN}/task"
TOKEN_KEY: Final = "identity_token"
MESSAGE_BYTES: Final = 4_096
"""The account of what the kubelet reads of a termination message."""
MAX_SECRET_BYTES: Final = 1_000_000
"""Kubernetes takes 1 MiB in one Secret."""
NOBODY: Final = 65_534
TTL_SECONDS: Final = 3_600
"""A Job that ended while no executor was there is kept for so long: then another one reads its end."""
LATE_SECONDS: Final = 120
"""The cluster ends a pod itself so long after its timeout, if no executor does."""
NETWORK: Final = "tickwise.network"
"""`none` or `allowed`: the label that a NetworkPolicy selects by."""
NAMESPACE_MARK: Final = "tickwise.io/namespace"
"""The annotation with the namespace of Tickwise, whose name may be no value of a label."""
_NUMBERS: Final = re.compile(r"([0-9]{1,10})(?::([0-9]{1,10}))?")


class ComposedJob(NamedTuple):
    """The manifests of an attempt."""

    job: Mapping[str, Any]
    data: Mapping[str, str]
    """Of its Secret, in base64. Empty: it needs none."""
    says_result: bool
    """Its result comes in lines of its log; else in its termination message."""


def name_of(assignment: Assignment) -> str:
    """The name of the only Job of a run, and of its Secret."""
    return f"tickwise-{assignment.run_id}"


def marks_of(assignment: Assignment, policy: ContainerPolicy, executor: str) -> Mapping[str, str]:
    """The labels of a Job and its pod, by which a watch and a sweep find them."""
    marks = dict(executor_labels(policy, executor))
    marks |= {ATTEMPT: str(assignment.attempt), RUN: str(assignment.run_id), TOKEN: str(assignment.token)}
    allowed = assignment.confinement.allow_network is True
    return marks | {NETWORK: "allowed" if allowed else "none"}


class _PodProgram(NamedTuple):
    """The account of what the container runs, and the files that it needs, by their keys in the Secret."""

    command: Sequence[str] | None
    arguments: Sequence[str] | None
    files: Mapping[str, bytes]
    says_result: bool


def _program(assignment: Assignment, text: TaskText, result_limit_bytes: int) -> _PodProgram:
    task, most = assignment.task, str(result_limit_bytes)
    files = {"work.tar": packed(text.files)} if text.files else {}
    if text.source is not None:
        script = SCRIPT
        if text.files:  # beside them, so that it can import them
            files["work.tar"] = packed({**text.files, "task.py": text.source})
            script = f"{WORK}/task.py"
        else:
            files["task"] = text.source
        files["enter"] = entry_source("enter.py")
        python = str(task.get("python") or PYTHON)
        arguments = [f"{IN}/enter", most, python]
        if assignment.names_errors:
            files["launcher"] = launcher_source()
            arguments += [f"{IN}/launcher", script, SYMPTOMS]
        else:
            arguments.append(script)
        return _PodProgram([python], arguments, files, says_result=True)
    command = task.get("command")
    if isinstance(command, str):
        files |= {"task": f"{command}\n".encode(), "enter": entry_source("enter.sh")}
        return _PodProgram([SHELL], [f"{IN}/enter", most, SHELL, SCRIPT], files, says_result=True)
    if "argv" in task:
        files["enter"] = entry_source("enter.sh")
        return _PodProgram([SHELL], [f"{IN}/enter", most, *task["argv"]], files, says_result=True)
    return _PodProgram(task.get("entrypoint"), command, files, says_result=False)


def packed(files: Mapping[str, bytes]) -> bytes:
    """The archive of files with these names."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def composed(
    assignment: Assignment,
    text: TaskText,
    policy: ContainerPolicy,
    place: JobPlace,
    executor: str,
    *,
    passed: Mapping[str, str],
    template: Mapping[str, Any],
    result_limit_bytes: int,
) -> ComposedJob:
    """The manifests of an attempt. `passed`: variables of the executor that tasks may see. Raises `ContainerFault` for
    what no pod can have."""
    task = assignment.task
    if task.get("mounts"):
        raise ContainerFault(
            MOUNT_REFUSED, "a pod mounts no folder of a machine for a task; volumes belong into the pod template"
        )
    program = _program(assignment, text, result_limit_bytes)
    kept: dict[str, bytes] = dict(program.files)
    plain, hidden = _variables(assignment, kept)
    kept |= {f"env-{place}": value for place, value in enumerate(hidden.values())}
    if (size := sum(map(len, kept.values()))) > MAX_SECRET_BYTES:
        raise ContainerFault(
            CONTAINER_REFUSED,
            f"script, files, payload and secrets have {size} bytes together, and a Secret of Kubernetes takes "
            f"{MAX_SECRET_BYTES}; put the files into the image",
        )
    environment: list[Mapping[str, Any]] = [
        {"name": name, "value": _literal(value)} for name, value in {**passed, **plain}.items() if name not in hidden
    ]
    for place_of, name in enumerate(hidden):
        reference = {"name": name_of(assignment), "key": f"env-{place_of}"}
        environment.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    files = [key for key in kept if not key.startswith("env-")]
    pod = overlaid(overlaid(_walls(says_result=program.says_result), template), _of_attempt(assignment, place, policy))
    container = {
        **_of_container(assignment, program),
        "env": environment,
        **({"volumeMounts": [{"name": "tickwise-in", "mountPath": IN, "readOnly": True}]} if files else {}),
    }
    marks = marks_of(assignment, policy, executor)
    spec: dict[str, Any] = {"containers": [container]}
    if files:
        items = [{"key": key, "path": key} for key in files]
        secret = {"secretName": name_of(assignment), "defaultMode": 0o444, "items": items}
        spec["volumes"] = [{"name": "tickwise-in", "secret": secret}]
    pod = overlaid(pod, {"metadata": {"labels": marks, "annotations": _notes(assignment)}, "spec": spec})
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name_of(assignment), "labels": marks, "annotations": _notes(assignment)},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "template": pod,
        },
    }
    data = {key: base64.b64encode(value).decode() for key, value in kept.items()}
    return ComposedJob(job, data, program.says_result)


def secret_manifest(assignment: Assignment, data: Mapping[str, str], labels: Mapping[str, str], uid: str) -> Any:
    """The Secret of an attempt, which goes with its Job. `uid`: of the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(assignment), "uid": uid, "controller": False}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name_of(assignment), "labels": dict(labels), "ownerReferences": [owner]},
        "data": dict(data),
    }


def _notes(assignment: Assignment) -> Mapping[str, str]:
    return {NAMESPACE_MARK: assignment.namespace}


def _variables(assignment: Assignment, kept: dict[str, bytes]) -> tuple[dict[str, str], dict[str, bytes]]:
    """The variables that may be seen, and those in the Secret: all that the task sets itself, and its payload. Files of
    secrets, of the token and of a large payload are put into `kept`."""
    plain = {**attempt_environment(assignment), "TICKWISE_RESULT_FILE": RESULT, "TICKWISE_WORK_FOLDER": WORK}
    hidden: dict[str, bytes] = {}
    files: dict[str, str] = {}
    for text, value in assignment.secrets.items():
        if text.startswith(f"{Injection.FILE}:"):
            key = f"secret-{len(files)}"
            files[text], kept[key] = f"{IN}/{key}", value
    for name, text in assignment.task.get("env", {}).items():
        hidden[name] = files[text].encode() if text in files else assignment.secrets.get(text, text.encode())
    if len(assignment.payload) <= PAYLOAD_VARIABLE_LIMIT_BYTES:
        hidden["TICKWISE_PAYLOAD"] = assignment.payload
    else:
        kept["payload.json"] = assignment.payload
        plain["TICKWISE_PAYLOAD_FILE"] = f"{IN}/payload.json"
    if assignment.identity_token is not None:
        kept[TOKEN_KEY] = assignment.identity_token.encode()
        plain[VARIABLE] = f"{IN}/{TOKEN_KEY}"
    return plain, hidden


def _literal(text: str) -> str:
    """A text that the kubelet leaves as it is: it fills in `$(NAME)`, and takes `$$` for a dollar sign."""
    return text.replace("$", "$$")


def _walls(*, says_result: bool) -> Mapping[str, Any]:
    """The account of what a template may change."""
    mounts = [{"name": "tickwise-tmp", "mountPath": "/tmp"}, {"name": "tickwise-work", "mountPath": WORK}]
    volumes: list[Mapping[str, Any]] = [
        {"name": "tickwise-tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
        {"name": "tickwise-work", "emptyDir": {}},
    ]
    if says_result:
        # Where a termination message is the result, its file is mounted there by the kubelet.
        mounts.append({"name": "tickwise-out", "mountPath": OUT})
        volumes.append({"name": "tickwise-out", "emptyDir": {}})
    container = {
        "name": TASK,
        "securityContext": {
            "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }  # fmt: skip
    return {
        "metadata": {},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "shareProcessNamespace": True,
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": NOBODY, "runAsGroup": NOBODY, "fsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": volumes,
            "containers": [container],
        },
    }  # fmt: skip


def _of_attempt(assignment: Assignment, place: JobPlace, policy: ContainerPolicy) -> Mapping[str, Any]:
    """The account of what no template changes, of the pod as a whole."""
    spec: dict[str, Any] = {"restartPolicy": "Never"}
    if place.account is not None:
        spec["serviceAccountName"] = place.account
    if assignment.timeout_seconds is not None:
        patience = policy.pull_seconds + LATE_SECONDS
        spec["activeDeadlineSeconds"] = math.ceil(assignment.timeout_seconds + patience)
    return {"spec": spec}


def _of_container(assignment: Assignment, program: _PodProgram) -> Mapping[str, Any]:
    task = assignment.task
    is_script = task["kind"] != "container"
    image = task["image"] if not is_script else assignment.confinement.container_image
    pull = {"always": "Always", "never": "Never"}.get(task.get("pull", ""), "IfNotPresent")
    container: dict[str, Any] = {"name": TASK, "image": read_image(str(image)).pulled, "imagePullPolicy": pull}
    folder = (task.get("directory") or WORK) if is_script else task.get("working_dir")
    if folder:
        container["workingDir"] = folder
    if program.command is not None:
        container["command"] = [_literal(each) for each in program.command]
        container["args"] = [_literal(each) for each in program.arguments or ()]
    elif program.arguments is not None:
        container["args"] = [_literal(each) for each in program.arguments]
    if not program.says_result:
        container["terminationMessagePath"] = RESULT
    limits: dict[str, str] = {}
    if assignment.limits.memory_bytes is not None:
        limits["memory"] = str(assignment.limits.memory_bytes)
    if task.get("cpus") is not None:
        limits["cpu"] = f"{math.ceil(task['cpus'] * 1_000)}m"
    if limits:
        container["resources"] = {"limits": limits, "requests": limits}
    if task.get("user") is not None:
        container["securityContext"] = _user(str(task["user"]))
    return container


def _user(said: str) -> Mapping[str, Any]:
    numbers = _NUMBERS.fullmatch(said)
    if numbers is None:
        raise ContainerFault(
            CONTAINER_REFUSED, f"a pod knows users by their numbers alone, and not {said!r}: write 1000 or 1000:1000"
        )
    user, group = numbers.groups()
    return {"runAsUser": int(user)} | ({} if group is None else {"runAsGroup": int(group)})
