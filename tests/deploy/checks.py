"""What `make deploy-check` looks at. Each returns what it saw, or raises AssertionError, or `NotHere` with why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy import gateway, image, sandbox_calls
from tests.deploy.alarms import run as run_alarms
from tests.deploy.cluster import cluster
from tests.deploy.files import CHART, COMPOSE, DEPLOY, UNITS, owners
from tests.deploy.files import unit as unit_of
from tests.deploy.tools import NotHere, from_go, hadolint, needed, said
from tests.support.certificates import make as make_certificate

MAX_EXPOSURE: Final = 2.0
"""Of `systemd-analyze security`, from 0 to 10; 2 is what it calls good."""
MAX_EXPOSURE_WITH_SANDBOXES: Final = 3.0
"""Of the unit of executors: it may make namespaces, which the sandboxes of tasks need (docs/how-to/sandbox.md)."""
IMAGES: Final = ("tickwise", "nginx", "postgres", "kafka", "redis", "prometheus", "grafana")
"""Each has a variable in the compose file by which it is named otherwise."""
NAMESPACE: Final = "restricted"
KUBERNETES: Final = "1.31.0"
"""The version that the chart is rendered for."""

SERVICES: Final = ("api", "search", "identity", "web", "scheduler", "recorder", "executor")
"""Each has a database role of its own."""

EVERYTHING_ON: Final[Mapping[str, Any]] = {
    "secrets": {
        "database_url": "postgresql://tickwise:p%22w<&@db/tickwise", "bootstrap_key": "k" * 40,
        "requests_keys": ["r" * 40], "heartbeat_url": "https://hc.example.org/token",
    },
    "secretsOf": {name: {"database_url": f"postgresql://tickwise_{name}:p%22w@db/tickwise"} for name in SERVICES},
    "networkPolicy": {
        "clients": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateway"}}}],
        "monitoring": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "data": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 5432}, {"port": 9092}]}],
    },
    "settings": {"drain_seconds": 90.5, "ingest": "buffered", "broker_url": "kafka://k:9092?prefix=a"},
    "tokenKey": {"secret": "token-key"},
    "tls": {"secret": "tls"},
    "api": {"serve": ["jobs"], "autoscaling": {"enabled": True}},
    "search": {"enabled": True, "autoscaling": {"enabled": True}},
    "identity": {"enabled": True, "autoscaling": {"enabled": True}},
    "web": {"enabled": True, "autoscaling": {"enabled": True}},
    "recorder": {"enabled": True},
    "executors": {
        "default": {"autoscaling": {"enabled": True}},
        "gpu": {
            "replicas": 1, "queues": ["gpu", "big"], "labels": ["gpu", "zone=a"], "slots": 4,
            "capacities": ["gpu=2", "license=1"],
            "resources": {"limits": {"memory": "4Gi"}}, "autoscaling": {"enabled": False},
        },
    },
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway"}], "hostnames": ["tickwise.example.org"]},
    "monitoring": {"podMonitor": True, "alerts": True, "dashboard": True},
}  # fmt: skip
PLAIN: Final[Mapping[str, Any]] = {"existingSecret": "mine", "ingress": {"enabled": True}}
TRIAL: Final[Mapping[str, Any]] = {
    "secrets": {"database_url": "postgresql://o:p@h/d"},
    "secretsOf": {
        name: {"database_url": f"postgresql://tickwise_{name}:p@h/d"} for name in ("api", "scheduler", "executor")
    },
}
CASSANDRA: Final[Mapping[str, Any]] = {
    **PLAIN, "keeper": {"enabled": True, "shards": 4}, "networkPolicy": EVERYTHING_ON["networkPolicy"],
}  # fmt: skip
REFUSED: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "a setting that does not exist": ({**PLAIN, "settings": {"slotz": 3}}, "slotz"),
    "a password among what is open": (
        {**PLAIN, "settings": {"database_url": "postgresql://u:p@h/d"}}, "database_url",
    ),
    "no database": ({}, "no database is given"),
    "requests that nobody applies": ({**PLAIN, "settings": {"ingest": "buffered"}}, "recorder.enabled"),
    "a service that uses the owner of the schema": (
        {**TRIAL, "secretsOf": {**TRIAL["secretsOf"], "scheduler": {"database_url": "postgresql://o:p@h/d"}}},
        "secretsOf.scheduler.database_url names the owner",
    ),
    "a service without a database role": (
        {**TRIAL, "secretsOf": {**TRIAL["secretsOf"], "executor": {}}}, "executor has no database role of its own",
    ),
    "a database role that is granted nothing": (
        {**TRIAL, "databaseRoles": {"api": "another"}}, "the migrations grant databaseRoles.api",
    ),
    "searches of a replica by the owner": (
        {**TRIAL, "secrets": {**TRIAL["secrets"], "search_database_url": "postgresql://o:q@replica/d"}},
        "secrets.search_database_url names the owner",
    ),
    "searches behind an ingress": (
        {**PLAIN, "api": {"serve": ["jobs", "users", "auth"]}, "search": {"enabled": True}}, "httpRoute",
    ),
    "tokens that nobody serves": ({**PLAIN, "api": {"serve": ["jobs", "search"]}}, "nobody serves auth"),
    "a tag that moves": ({**PLAIN, "image": {"tag": "latest"}}, "tag"),
}  # fmt: skip


async def dockerfile() -> str:
    """hadolint finds nothing."""
    answer = said([hadolint(), DEPLOY / "Dockerfile"])
    assert answer.strip() == "", answer
    return "hadolint finds nothing"


async def compose() -> str:
    """Compose's own parser takes the file, with its secrets made."""
    program = from_go("compose-check")
    with tempfile.TemporaryDirectory() as name:
        deploy = Path(name) / "deploy"
        shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns("secrets"))
        said(["sh", deploy / "compose" / "secrets.sh"])
        made = deploy / "compose" / "secrets"
        before = {file.name: file.read_text() for file in made.iterdir()}
        said(["sh", deploy / "compose" / "secrets.sh"])
        assert before == {file.name: file.read_text() for file in made.iterdir()}, "secrets.sh made them anew"
        read = yaml.safe_load(said([program, deploy / "compose" / COMPOSE.name]))
        _check_database_roles(
            read["services"]["migrations"]["command"],
            {file.stem: tomllib.loads(file.read_text())["database_url"] for file in made.glob("*.toml")},
        )
        for other, more in (("sqs", {"elasticmq"}), ("two_databases", {"postgres_2", "database_roles_2"})):
            files = [COMPOSE.name, f"{other}.yaml"]
            both = yaml.safe_load(said([program, *files], folder=deploy / "compose"))
            assert more <= set(both["services"]), f"{other}.yaml adds {more}"
            assert ("kafka" in both["services"]) == (other != "sqs")
        for file in made.glob("*.toml"):
            file.unlink()
        said(["sh", deploy / "compose" / "secrets.sh"], environment={**os.environ, "STORE": "cassandra"})
        kept = yaml.safe_load(said([program, COMPOSE.name, "cassandra.yaml"], folder=deploy / "compose"))["services"]
        assert {"cassandra", "keeper"} <= kept.keys()
        assert not {"postgres", "database_roles"} & kept.keys()
        # This program puts the defaults for variables; Docker's own reads them from its environment.
        others = {name: f"registry.example.org/{name}@sha256:{'0' * 64}" for name in IMAGES}
        named = re.sub(r"\$\{IMAGE_(\w+):-[^}]+\}", lambda found: others[found[1].lower()], COMPOSE.read_text())
        (deploy / "compose" / "by_digest.yaml").write_text(named)
        pinned = said([program, deploy / "compose" / "by_digest.yaml"])
        images = {service["image"] for service in yaml.safe_load(pinned)["services"].values()}
        assert set(others.values()) == images, f"an image cannot be named by its digest: {images}"
    return f"compose-go reads {len(read['services'])} services, and takes digests for their images"


async def load_balancer() -> str:
    """nginx takes the configurations of the gateway: of the compose file, and of the units of one machine."""
    program = needed("nginx", "Debian's nginx-light")
    routes = (DEPLOY / "gateway" / "routes.conf").read_text()
    with tempfile.TemporaryDirectory() as name:
        configuration = Path(name) / "nginx.conf"
        (Path(name) / "tickwise-routes.conf").write_text(routes)
        text = (DEPLOY / "compose" / "nginx.conf").read_text()
        mute = gateway.mute_places(text)
        # Its files lie in a folder of our own; in the container /tmp is that.
        configuration.write_text(text.replace("/tmp/", f"{name}/").replace("/dev/stdout", f"{name}/access.log"))
        answer = said([program, "-t", "-p", name, "-c", configuration])
        pair = make_certificate(Path(name) / "tls")
        server = (UNITS / "apart" / "nginx.conf").read_text()
        mute += gateway.mute_places(server)
        for place, made in (("tickwise.crt", pair.certificate), ("tickwise.key", pair.key)):
            server = server.replace(f"/etc/nginx/{place}", str(made))
        inside = f"access_log off;\n{routes}\n{server}"
        configuration.write_text(f"pid {name}/nginx.pid;\nevents {{}}\nhttp {{\n{inside}\n}}\n")
        answer += said([program, "-t", "-p", name, "-c", configuration])
    assert "[warn]" not in answer, answer
    assert not mute, f"no X-Forwarded-For with the address of the client in {mute}"
    return "nginx takes both configurations, and both tell the address of the client"


async def alarms() -> str:
    """promtool reads the rules and the configuration, and the alarms go off when they must and not else."""
    program = needed("promtool", "Debian's prometheus")
    with tempfile.TemporaryDirectory() as name:
        count = run_alarms(program, Path(name))
    for folder in ("compose", "prometheus"):
        said([program, "check", "config", "--syntax-only", DEPLOY / folder / "prometheus.yaml"])
    return f"promtool reads the rules, and {count} tests of them hold"


def rendered(helm: str, values: Mapping[str, Any]) -> str:
    """The chart with these values."""
    options = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES, "--values", "-"]
    return said([helm, "template", "check", str(CHART), *options], given=yaml.safe_dump(dict(values)))


async def chart() -> str:
    """helm lints and renders it, and it refuses what would not work."""
    helm = from_go("helm")
    for values in (PLAIN, EVERYTHING_ON, CASSANDRA):
        said([helm, "lint", CHART, "--strict", "--values", "-"], given=yaml.safe_dump(dict(values)))
    everything = [each for each in yaml.safe_load_all(rendered(helm, EVERYTHING_ON)) if each]
    kinds = {each["kind"] for each in everything}
    for pod in (each["spec"]["template"]["spec"] for each in everything if each["kind"] == "Deployment"):
        drains = pod["containers"][0]["name"] == "executor"
        assert pod["terminationGracePeriodSeconds"] >= (90.5 + 5 + 5 if drains else 10), pod
    _check_secrets(everything)
    _check_policies(everything)
    _check_parts(everything)
    _check_sandboxes(everything)
    _check_keepers([each for each in yaml.safe_load_all(rendered(helm, CASSANDRA)) if each])
    (job,) = [_pod(each) for each in everything if each["kind"] == "Job"]
    assert job is not None
    _check_database_roles(
        job["containers"][0]["args"],
        {name: tomllib.loads(text)["database_url"] for name, text in _secrets_of(everything).items()},
    )
    digest = f"sha256:{'0' * 64}"
    pinned = yaml.safe_load_all(rendered(helm, {**PLAIN, "image": {"repository": "r/tickwise", "digest": digest}}))
    images = {container["image"] for pod in map(_pod, pinned) if pod for container in pod["containers"]}
    assert {f"r/tickwise@{digest}"} == images, images
    for what, (values, pointer) in REFUSED.items():
        refusal = _refusal(helm, values)
        assert pointer in refusal, f"{what}: {refusal or 'the chart takes it'}"
    return f"helm lints and renders {len(kinds)} kinds, and refuses {len(REFUSED)} mistakes"


def _check_keepers(documents: list[dict[str, Any]]) -> None:
    """Two keepers, which the other pods of the release reach at one port; the migrations grant nothing."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    keeper = found["Deployment", "check-keeper"]["spec"]
    assert 2 == keeper["replicas"]
    assert ["keeper", "--port", "8472"] == keeper["template"]["spec"]["containers"][0]["args"]
    policies = {name: each["spec"] for (kind, name), each in found.items() if kind == "NetworkPolicy"}
    assert ["health", "keeper"] == [rule["ports"][0]["port"] for rule in policies["check-keeper"]["ingress"]]
    for name, policy in policies.items():
        ports = [port["port"] for rule in policy["egress"] for port in rule.get("ports", ())]
        assert ("keeper" in ports) == (name not in ("check-keeper", "check-migrations")), name
    (job,) = [_pod(each) for each in documents if each["kind"] == "Job"]
    assert job is not None
    assert ["db", "upgrade", "--shards=4"] == job["containers"][0]["args"]


def _pod(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """The pod of an object that has one."""
    template = (document or {}).get("spec", {}).get("template")
    return None if template is None else template["spec"]


def _check_database_roles(command: list[str], addresses: Mapping[str, str]) -> None:
    """The owner of the schema migrates, and nothing else; each service has a role of its own that the migrations
    (`command`) grant its rights. `addresses`: the `database_url` of each."""
    services = {name: address for name, address in addresses.items() if name != "migrations"}
    assert services.keys() >= set(SERVICES), services.keys()
    wrong = owners(addresses["migrations"], services, command)
    assert not wrong, f"no database role of its own with rights: {', '.join(wrong)}"


def _secrets_of(documents: list[dict[str, Any]]) -> dict[str, str]:
    """The text of `secrets.toml` of each role."""
    return {
        name.removesuffix(".toml"): text
        for each in documents if each["kind"] == "Secret" for name, text in each["stringData"].items()
    }  # fmt: skip


def _check_secrets(documents: list[dict[str, Any]]) -> None:
    """Each role's Secret holds what it needs, and each pod mounts its own, without a token of the cluster."""
    texts = _secrets_of(documents)
    held = {name: {line.split(" = ")[0] for line in text.splitlines() if line} for name, text in texts.items()}
    plain = {"database_url"}
    wanted = {
        "api": plain | {"bootstrap_key", "requests_keys"}, "recorder": plain | {"requests_keys"}, "search": plain,
        "identity": plain, "web": plain,
        "scheduler": plain | {"heartbeat_url"}, "executor": plain, "migrations": plain,
    }  # fmt: skip
    assert wanted == held, held
    for each in documents:
        pod = _pod(each)
        if pod is None:
            continue
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "configuration"]
        mounted = [
            item["key"]
            for source in volume["projected"]["sources"]
            for item in source.get("secret", {}).get("items", ())
        ]
        assert [f"{component.partition('-')[0]}.toml"] == mounted, (component, mounted)
        assert pod["automountServiceAccountToken"] is False, component
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert (True, ["ALL"]) == (rights["readOnlyRootFilesystem"], rights["capabilities"]["drop"]), component


def _check_parts(documents: list[dict[str, Any]]) -> None:
    """The parts of the API are scaled alone, speak TLS, and one alone has the key of tokens; the gateway leads each
    route to the part that serves it."""
    parts = {"api", "search", "identity", "web"}
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in documents if each["kind"] == "HorizontalPodAutoscaler"}
    assert {f"check-{part}" for part in parts} == scaled, scaled
    pods = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: _pod(each)
        for each in documents if each["kind"] == "Deployment"
    }  # fmt: skip
    mounts = {
        component: {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        for component, pod in pods.items() if pod
    }  # fmt: skip
    assert {"identity"} == {component for component, names in mounts.items() if "token" in names}, mounts
    assert parts == {component for component, names in mounts.items() if "tls" in names}, mounts
    (route,) = [each for each in documents if each["kind"] == "HTTPRoute"]
    wrong = gateway.misled(partial(gateway.by_http_route, route), gateway.CHART, gateway.CHART_PAGES)
    assert not wrong, wrong


SANDBOXED: Final[Mapping[str, Any]] = {
    **PLAIN, "executors": {"default": {"sandbox": {"enabled": True}}},
}  # fmt: skip


def _check_sandboxes(usual: list[dict[str, Any]]) -> None:
    """Pods are restricted, but for those of executors whose pool is to give sandboxes."""
    helm = from_go("helm")
    asked = [each for each in yaml.safe_load_all(rendered(helm, SANDBOXED)) if each]
    for documents, opened in ((usual, set[str]()), (asked, {"executor-default"})):
        for each in documents:
            pod = _pod(each)
            if pod is None:
                continue
            (container,) = pod["containers"]
            rights = container["securityContext"]
            component = each["metadata"]["labels"]["app.kubernetes.io/component"]
            has_sandbox = component in opened
            found = (rights.get("procMount"), rights["seccompProfile"]["type"], pod.get("hostUsers"))
            assert found == (("Unmasked", "Unconfined", False) if has_sandbox else (None, "RuntimeDefault", None)), (
                found
            )
            assert (False, ["ALL"]) == (rights["allowPrivilegeEscalation"], rights["capabilities"]["drop"]), component
            told = {entry["name"]: entry.get("value") for entry in container["env"]}
            assert told.get("TICKWISE_ISOLATION") == ("sandbox" if has_sandbox else None), told


def _check_policies(documents: list[dict[str, Any]]) -> None:
    """Each pod has a policy; only the API is reached by clients, and only executors reach the world."""
    policies = {
        each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: each["spec"]
        for each in documents if each["kind"] == "NetworkPolicy"
    }  # fmt: skip
    pods = {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in documents if _pod(each) is not None}
    assert pods == policies.keys(), (pods, set(policies))
    reached = {
        name
        for name, said in policies.items()
        for rule in said.get("ingress", ())
        for port in rule["ports"]
        if port["port"] == "api"
    }
    assert {"api", "search", "identity", "web"} == reached, reached
    anywhere = {name for name, said in policies.items() if "0.0.0.0/0" in str(said["egress"])}
    assert {"executor-default", "executor-gpu"} == anywhere, anywhere


def _refusal(helm: str, values: Mapping[str, Any]) -> str:
    try:
        rendered(helm, values)
    except AssertionError as refusal:
        return str(refusal)
    return ""


async def dry_run() -> str:
    """A real API server finds every object good, under the restricted profile of pods."""
    helm = from_go("helm")
    async with cluster() as here:
        judged = 0
        unknown: set[str] = set()
        for values in (PLAIN, EVERYTHING_ON, CASSANDRA):
            count, others = here.judge(rendered(helm, values), NAMESPACE)
            judged, unknown = judged + count, unknown | others
    left_out = f"; it knows not, and so judged not: {', '.join(sorted(unknown))}" if unknown else ""
    return f"the API server finds {judged} objects good{left_out}"


async def units() -> str:
    """systemd takes the units, and finds little that they could do without."""
    program = needed("systemd-analyze", "systemd")
    with tempfile.TemporaryDirectory() as name:
        migrations, *_ = unit_of(UNITS / "tickwise-migrations.service")["ExecStart"]
        # An operator writes the addresses; the roles are those of the compose file.
        addresses = {service: f"postgresql://tickwise_{service}@db/tickwise" for service in SERVICES}
        _check_database_roles(migrations.split(), {**addresses, "migrations": "postgresql://tickwise@db/tickwise"})
        copies = []
        for unit in sorted(UNITS.glob("tickwise*.[st]*[et]")):
            text = unit.read_text().replace("/opt/tickwise/bin", str(Path(sys.executable).parent))
            copies.append(Path(name) / unit.name)
            copies[-1].write_text(text)
        answer = said([program, "verify", "--man=no", "--recursive-errors=no", *map(str, copies)])
        # It complains and ends well all the same.
        assert answer.strip() == "", answer
        services = [copy for copy in copies if copy.suffix == ".service"]
        for service in services:
            is_executor = service.name == "tickwise-executor.service"
            most = MAX_EXPOSURE_WITH_SANDBOXES if is_executor else MAX_EXPOSURE
            said([program, "security", "--offline=true", "--no-pager", f"--threshold={most * 10:.0f}", service])
    calls = sandbox_calls.refused_by_unit(program)
    assert not calls, f"the unit of executors refuses what bubblewrap calls: {', '.join(sorted(calls))}"
    return (
        f"systemd takes {len(copies)} units; none is more exposed than {MAX_EXPOSURE:g} of 10, that of executors than "
        f"{MAX_EXPOSURE_WITH_SANDBOXES:g}; it refuses nothing that a sandbox is built with"
    )


async def users() -> str:
    """systemd makes the users of the units, and the folder that they share."""
    makes_users, makes_folders = needed("systemd-sysusers", "systemd"), needed("systemd-tmpfiles", "systemd")
    if os.geteuid() != 0:
        raise NotHere("only root can give a folder to a user")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "etc").mkdir()
        for program, options, file in (
            (makes_users, [], "tickwise.sysusers.conf"),
            (makes_folders, ["--create"], "tickwise.tmpfiles.conf"),
        ):
            said([program, f"--root={root}", *options, UNITS / file])
        numbers = {line.split(":")[0]: line.split(":") for line in (root / "etc" / "passwd").read_text().splitlines()}
        (group,) = [line for line in (root / "etc" / "group").read_text().splitlines() if line.startswith("tickwise:")]
        scripts = (root / "var" / "lib" / "tickwise" / "blobs" / "scripts").stat()
        owner = int(numbers["tickwise-api"][2])
        assert (owner, int(group.split(":")[2]), 0o2750) == (scripts.st_uid, scripts.st_gid, scripts.st_mode & 0o7777)
    return f"systemd makes {len(numbers)} users, and the folder that they share"


async def published_images() -> str:
    """Whether the images of other projects are there under their tags."""
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    usual = {service["image"].partition(":-")[2].rstrip("}") for service in services.values()}
    names = sorted(name for name in usual if not name.startswith("tickwise:"))
    docker = needed("docker", "Docker")
    missing = []
    for name in names:
        try:
            json.loads(said([docker, "manifest", "inspect", name], seconds=60))
        except (AssertionError, ValueError) as failure:
            if "no such manifest" in str(failure) or "manifest unknown" in str(failure):
                missing.append(name)
            else:
                raise NotHere("no registry of images answers") from failure
    assert not missing, f"there are no such images: {', '.join(missing)}"
    return f"{len(names)} images of others are there"


CHECKS: Final[Mapping[str, Callable[[], Coroutine[Any, Any, str]]]] = {
    "dockerfile": dockerfile,
    "image": image.check,
    "compose": compose,
    "load-balancer": load_balancer,
    "images-of-others": published_images,
    "alarms": alarms,
    "chart": chart,
    "dry-run": dry_run,
    "units": units,
    "users": users,
}
