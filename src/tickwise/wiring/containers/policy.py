"""The policy of containers from the settings, and what `doctor` says of their engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from tickwise.adapters.runner.container.engine import Engine, EngineAway, EngineRefused
from tickwise.adapters.runner.container.names import IMAGE, WARM_NAME
from tickwise.adapters.runner.container.references import is_allowed, read_image
from tickwise.adapters.runner.containers import AttemptFate, ContainerPolicy, KubernetesPolicy, WarmWatch
from tickwise.config import Settings
from tickwise.config.containers import read_warm
from tickwise.domain.errors import Misconfigured
from tickwise.domain.lifecycle import HELD, RunState
from tickwise.domain.rules.sentences import LEASE_LOST
from tickwise.ports.store import Store
from tickwise.ports.store.records import AttemptRow
from tickwise.wiring.containers.cluster import cluster_finding
from tickwise.wiring.findings import DoctorFinding


def container_policy(settings: Settings, store: Store | None, watch: WarmWatch | None = None) -> ContainerPolicy | None:
    """The policy of this executor; None: it has no engine. `store`: it is open; `watch`: is told of warm containers."""
    if settings.container_engine is None:
        return None

    async def is_held(_namespace: str, run_id: UUID, token: int) -> bool:
        assert store is not None
        attempts = await store.runs.attempts(run_id)
        return any(each.token == token and each.state in HELD for each in attempts)

    async def fate_of(run_id: UUID, token: int) -> AttemptFate:
        assert store is not None
        return fate_in(await store.runs.attempts(run_id), token)

    return ContainerPolicy(
        engine=settings.container_engine,
        installation="" if store is None else store.upkeep.cluster_id,
        images=settings.container_images,
        needs_digest=settings.container_digests == "required",
        mounts=settings.container_mounts,
        network=settings.container_network,
        registry_file=settings.container_registry_file,
        pull_seconds=settings.container_pull_seconds,
        processes=settings.container_processes,
        warm=read_warm(settings.container_warm),
        warm_watch=watch,
        is_held=None if store is None else is_held,
        kubernetes=KubernetesPolicy(
            config=settings.kubernetes_config,
            places=settings.kubernetes_namespaces,
            template=settings.kubernetes_pod_template,
            pending_seconds=settings.kubernetes_pending_seconds,
            plain_tasks=settings.kubernetes_plain_tasks == "allowed",
            fate_of=None if store is None else fate_of,
        ),
    )


def fate_in(attempts: Sequence[AttemptRow], token: int) -> AttemptFate:
    """The fate of the attempt with this token, by those of its run on record. One that is not on record was lost before
    its start was, or its end never reached the store."""
    row = next((each for each in attempts if each.token == token), None)
    if row is None or (row.state is RunState.QUEUED and row.reason in (None, LEASE_LOST)):
        return AttemptFate.LOST
    return AttemptFate.HELD if row.state in HELD else AttemptFate.SETTLED


async def container_finding(settings: Settings) -> DoctorFinding:
    """The engine of containers of an executor with these settings."""
    if settings.container_engine is None:
        return DoctorFinding("containers", "ok", "none; TICKWISE_CONTAINER_ENGINE names no engine")
    if settings.container_engine.startswith("kubernetes:"):
        return await cluster_finding(settings)
    try:
        engine = Engine(settings.container_engine)
    except Misconfigured as wrong:
        return DoctorFinding("containers", "error", wrong.detail, "set TICKWISE_CONTAINER_ENGINE, or unset it")
    try:
        facts = await engine.facts()
        waiting = Counter(each.labels.get(IMAGE, "") for each in await engine.named(f"{WARM_NAME}."))
    except (EngineAway, EngineRefused) as away:
        return DoctorFinding(
            "containers", "error", f"the engine {settings.container_engine} does not answer: {away}",
            "start it, and let this user reach its socket",
        )  # fmt: skip
    finally:
        await engine.close()
    limits = {"memory": facts.limits_memory, "processes": facts.limits_processes, "cpus": facts.limits_cpu}
    held = ", ".join(name for name, is_there in limits.items() if is_there) or "nothing"
    restarts = "outlive" if facts.survives_restarts else "end with"
    text = f"engine {facts.version}; it limits {held}; containers {restarts} its restart"
    warm = {read_image(name).pulled: most for name, most in read_warm(settings.container_warm).items()}
    if warm:
        text += "; warm: " + ", ".join(f"{waiting[name]} of {most} {name}" for name, most in warm.items())
    if not settings.container_images:
        return DoctorFinding(
            "containers", "warning", f"{text}; no image is allowed", "name images in TICKWISE_CONTAINER_IMAGES"
        )
    digests = ", each with its digest" if settings.container_digests == "required" else ""
    foreign = [name for name in warm if not is_allowed(read_image(name), settings.container_images)]
    if foreign:
        advice = "name them in TICKWISE_CONTAINER_IMAGES too, or take them from TICKWISE_CONTAINER_WARM"
        return DoctorFinding(
            "containers", "warning", f"{text}; warm images that are not allowed: {', '.join(foreign)}", advice
        )
    lacks = [name for name, is_there in limits.items() if not is_there]
    said = f"{text}; images: {', '.join(settings.container_images)}{digests}"
    if lacks:
        advice = f"jobs that limit {', '.join(lacks)} wait for another executor; enable these control groups"
        return DoctorFinding("containers", "warning", said, advice)
    return DoctorFinding("containers", "ok", said)
