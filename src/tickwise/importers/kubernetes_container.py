"""The pod of a Kubernetes Job as a task of the kind `container`: its one container, with its image.

    image, command, args, workingDir          ──► image, entrypoint, command, working_dir
    env, with `$(NAME)` filled in             ──► env; what a Secret gives ──► `secret:SECRET.KEY`, to be set here
    resources.limits                          ──► cpus, limits.memory_bytes
    securityContext.runAsUser, runAsGroup     ──► user
    imagePullPolicy, hostPath with its mount  ──► pull, mounts

A pod has the network of its cluster, so the job has `allow_network`. What a pod has besides (other volumes, service
accounts, places in a cluster) is left out, and each entry says so. On Kubernetes the pod template of the executor
(`TICKWISE_KUBERNETES_POD_TEMPLATE`) gives it to all pods.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from tickwise.importers.kubernetes_pod import (
    GROUPS,
    MAX_CONTAINERS,
    MAX_VARIABLES,
    PodValues,
    filled,
    names_of_sources,
    only_container,
    source_of,
)
from tickwise.importers.translation import (
    MAX_ARGUMENTS,
    MAX_COMMAND_CHARACTERS,
    VARIABLE,
    Reference,
    Untranslatable,
    Words,
    command_line,
    listed,
    plain,
)
from tickwise.importers.yaml_nodes import Mapping

MAX_CPUS: Final = 1_024
MAX_VOLUMES: Final = 100
_POD: Final = frozenset(
    {
        "containers", "initContainers", "restartPolicy", "activeDeadlineSeconds", "schedulerName", "dnsPolicy",
        "terminationGracePeriodSeconds", "enableServiceLinks", "securityContext", "volumes", "imagePullSecrets",
    }
)  # fmt: skip
"""Fields that are translated, told of by themselves, or mean nothing to a task."""
_CONTAINER: Final = frozenset(
    {
        "name", "image", "command", "args", "env", "envFrom", "workingDir", "imagePullPolicy", "terminationMessagePath",
        "terminationMessagePolicy", "stdin", "stdinOnce", "tty", "resources", "securityContext", "volumeMounts",
    }
)  # fmt: skip
_PULLS: Final = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
_RIGHTS_KEPT: Final = frozenset(
    {
        "runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation",
        "seccompProfile",
    }
)  # fmt: skip
"""Translated, or true of each container here."""
_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_QUANTITY: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2}|[numkKMGTPE]i?|)")
_FACTORS: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
"""Suffixes of a quantity, as apimachinery's `resource.Quantity` reads them."""


class ContainerTask(NamedTuple):
    """The task of a pod, with the fields of its job."""

    task: dict[str, Any]
    fields: dict[str, Any]
    """Of the job, beside the task."""
    notes: Sequence[str]


def container_task(pod: Mapping, changes: list[str]) -> ContainerTask:
    """The task; what it lacks of the pod goes to `changes`. Raises `Untranslatable`."""
    container = only_container(pod)
    if names := [each.text("name") or "?" for each in pod.mappings("initContainers", MAX_CONTAINERS)]:
        raise Untranslatable(
            f"the pod has init containers ({listed(names)}), and a run is one container; do their work in the image, "
            "or in a job before this one (`after`)"
        )
    image = container.text("image")
    if not image:
        raise Untranslatable("the container names no image; write one")
    values, env = _variables(container, changes)
    task: dict[str, Any] = {"kind": "container", "image": image, **_program(container, values, changes)}
    if env:
        task["env"] = env
    folder = container.text("workingDir")
    if folder is not None:
        if not folder.startswith("/"):
            raise Untranslatable(f"workingDir is {folder[:100]!a}; write a whole path, from / on")
        task["working_dir"] = folder
    user = _user(pod, container)
    task |= {"user": user} if user is not None else {}
    mounts = _mounts(pod, container, changes)
    task |= {"mounts": mounts} if mounts else {}
    task["pull"] = _pull(container, image)
    cpus, limits = _limits(container)
    task |= {"cpus": cpus} if cpus is not None else {}
    _left_out(pod, container, changes)
    notes = [f"executors run images that `container_images` allows: {image[:200]}"]
    if pod.sequence("imagePullSecrets", MAX_CONTAINERS):
        notes.append("imagePullSecrets: executors have the credentials of registries (container_registry_file)")
    return ContainerTask(task, {"allow_network": True, **({"limits": limits} if limits else {})}, notes)


# ------------------------------------------------------------------------------------------------------ what it runs


def _program(container: Mapping, values: PodValues, changes: list[str]) -> dict[str, Any]:
    """`command` is the entry point there, and `args` are its arguments; without either the image's own run."""
    elsewhere = bool(container.sequence("envFrom", MAX_VARIABLES))
    program = _words(container.texts("command", MAX_ARGUMENTS), values, elsewhere=elsewhere)
    arguments = _words(container.texts("args", MAX_ARGUMENTS), values, elsewhere=elsewhere)
    known, given = _known(program), _known(arguments)
    if known is not None and given is not None:
        return {**({"entrypoint": known} if known else {}), **({"command": given} if given else {})}
    if not program:
        raise Untranslatable(
            "its args name variables whose values are known only when it runs, and the program is the image's; write "
            "its `command`"
        )
    changes.append("it is started by the image's /bin/sh, which fills in variables that are known only when it runs")
    return {"command": f"exec {command_line([*program, *arguments])}"}


def _words(texts: Sequence[str], values: PodValues, *, elsewhere: bool) -> list[Words]:
    if sum(map(len, texts)) > MAX_COMMAND_CHARACTERS:
        raise Untranslatable(f"the command has more than {MAX_COMMAND_CHARACTERS} characters; put it into the image")
    return [filled(text, values, from_elsewhere=elsewhere) for text in texts]


def _known(words: Sequence[Words]) -> list[str] | None:
    found = [plain(each) for each in words]
    texts = [text for text in found if text is not None]
    return texts if len(texts) == len(found) else None


def _variables(container: Mapping, changes: list[str]) -> tuple[PodValues, dict[str, str]]:
    """The variables for `$(NAME)`, and those of the task."""
    values: PodValues = {}
    env: dict[str, str] = {}
    secrets: list[str] = []
    missing: list[str] = []
    groups = container.mappings("envFrom", MAX_VARIABLES)
    for group in groups:
        missing += [f"all of {name}" for name in names_of_sources(group, GROUPS)]
    for variable in container.mappings("env", MAX_VARIABLES):
        name, source = variable.text("name") or "", variable.mapping("valueFrom")
        if not VARIABLE.fullmatch(name):
            missing.append(name[:60])
        elif source is None:
            values[name] = filled(variable.text("value") or "", values, from_elsewhere=bool(groups))
            if (text := plain(values[name])) is None:
                missing.append(f"{name}, which is made of others")
            else:
                env[name] = text
        else:
            values[name] = (Reference(name),)
            secret = _secret(source)
            if secret is None:
                missing.append(f"{name} from {source_of(source)}")
            else:
                env[name] = f"secret:{secret}"
                secrets.append(secret)
    if secrets:
        changes.append(f"set these secrets here (tickwise secrets set NAME): {listed(dict.fromkeys(secrets))}")
    if missing:
        changes.append(f"add these variables to the task's `env`, they are not in the manifest: {listed(missing)}")
    return values, env


def _secret(source: Mapping) -> str | None:
    """The name of the secret here: that of the Secret there, and its key."""
    found = source.mapping("secretKeyRef")
    if found is None:
        return None
    name = f"{found.text('name') or ''}.{found.text('key') or ''}"
    return name if _SECRET_NAME.fullmatch(name) else None


# ----------------------------------------------------------------------------------------------- how it is confined


def _user(pod: Mapping, container: Mapping) -> str | None:
    """`USER:GROUP`, in numbers; what the container says comes before what the pod says."""
    said: dict[str, int | None] = {"runAsUser": None, "runAsGroup": None}
    for rights in (pod.mapping("securityContext"), container.mapping("securityContext")):
        for name in said:
            number = None if rights is None else rights.whole_number(name)
            said[name] = said[name] if number is None else number
    user, group = said["runAsUser"], said["runAsGroup"]
    if user is None:
        return None
    return str(user) if group is None else f"{user}:{group}"


def _pull(container: Mapping, image: str) -> str:
    """As Kubernetes decides where nothing is said: an image without a tag, or of `latest`, is always pulled."""
    said = container.text("imagePullPolicy")
    if said is None:
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        return "missing" if "@" in image or tag not in ("", "latest") else "always"
    if said not in _PULLS:
        raise Untranslatable(f"imagePullPolicy is {said[:30]!a}; write {', '.join(_PULLS)}")
    return _PULLS[said]


def _limits(container: Mapping) -> tuple[int | float | None, dict[str, Any]]:
    """`cpus`, and the limits of the job."""
    resources = container.mapping("resources")
    limits = None if resources is None else resources.mapping("limits")
    if limits is None:
        return None, {}
    cpu, memory = _quantity(limits, "cpu"), _quantity(limits, "memory")
    cpus = None if not cpu else float(max(Decimal("0.01"), min(cpu, Decimal(MAX_CPUS))))
    if cpus is not None and cpus.is_integer():
        cpus = int(cpus)
    return cpus, ({"memory_bytes": int(memory)} if memory else {})


def _quantity(limits: Mapping, name: str) -> Decimal | None:
    text = limits.text(name)
    if text is None:
        return None
    found = _QUANTITY.fullmatch(text.strip())
    suffix = "" if found is None else found[2]
    try:
        if found is not None and suffix[:1] in ("e", "E") and suffix[1:]:
            return Decimal(found[1]) * Decimal(f"1{suffix}")
        if found is not None:
            return Decimal(found[1]) * _FACTORS[suffix]
    except (InvalidOperation, KeyError):
        pass
    raise Untranslatable(f"resources.limits.{name} is {text[:30]!a}; write a quantity such as 500m or 512Mi")


def _mounts(pod: Mapping, container: Mapping, changes: list[str]) -> list[dict[str, Any]]:
    """Folders of the machine. Other volumes are left out."""
    hosts: dict[str, str] = {}
    for volume in pod.mappings("volumes", MAX_VOLUMES):
        host = volume.mapping("hostPath")
        path = None if host is None else host.text("path")
        if path is not None and path.startswith("/"):
            hosts[volume.text("name") or ""] = path
    found: list[dict[str, Any]] = []
    others: list[str] = []
    for mount in container.mappings("volumeMounts", MAX_VOLUMES):
        name, target = mount.text("name") or "?", mount.text("mountPath") or "?"
        if name in hosts and target.startswith("/") and not mount.text("subPath"):
            found.append({"source": hosts[name], "target": target, "read_only": mount.flag("readOnly")})
        else:
            others.append(f"{name} at {target}"[:120])
    if found:
        changes.append(
            "executors mount folders that `container_mounts` names: " + listed(str(mount["source"]) for mount in found)
        )
    if others:
        changes.append(f"these volumes are left out: {listed(others)}; what it needs of them belongs into the image")
    return found


def _left_out(pod: Mapping, container: Mapping, changes: list[str]) -> None:
    left_out = [name for name in pod.names() if name not in _POD]
    left_out += [name for name in container.names() if name not in _CONTAINER]
    for rights in (pod.mapping("securityContext"), container.mapping("securityContext")):
        if rights is not None:
            left_out += [f"securityContext.{name}" for name in rights.names() if name not in _RIGHTS_KEPT]
    resources = container.mapping("resources")
    if resources is not None:
        left_out += [f"resources.{name}" for name in resources.names() if name != "limits"]
        limits = resources.mapping("limits")
        if limits is not None:
            left_out += [f"resources.limits.{name}" for name in limits.names() if name not in ("cpu", "memory")]
    if left_out:
        changes.append(f"left out, because a task says nothing of it: {listed(dict.fromkeys(left_out))}")
