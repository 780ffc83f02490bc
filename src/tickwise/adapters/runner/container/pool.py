"""The warm pool: containers that were made and not started, for images that the settings name.

    refill ──► create ──► ready ──take──► renamed for one attempt ──► filled, started, removed
                            └── image or wishes changed, end of the executor ──► removed

A setting and not a field of a job decides how many there are: each takes room on the engine's disk, which is the
operator's, and a job stays the same on every executor. The containers of an image have the shapes (user, network,
limits, mounts, …) of its last attempts; before the first one, that of a task that asks for nothing.

Invariant: a container is given once. It has run nothing before, and holds nothing of any namespace until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.composing import plain_config
from tickwise.adapters.runner.container.engine import Engine, EngineAway, EngineRefused
from tickwise.adapters.runner.container.images import Images
from tickwise.adapters.runner.container.names import EXECUTOR, IMAGE, WARM_NAME
from tickwise.adapters.runner.container.prepared import PreparedImage, PreparedImages, is_image_missing
from tickwise.adapters.runner.container.references import read_image
from tickwise.adapters.runner.containers import WarmImages, WarmWatch
from tickwise.ports.clock import Clock

RETRY_SECONDS: Final = 30.0
"""After an image that could not be had, or an engine that was away."""
_logger = logging.getLogger(__name__)


class WarmContainer(NamedTuple):
    """A container that waits."""

    container_id: str
    name: str
    shape: str


class _WarmImage:
    """The containers of one image."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ready: list[WarmContainer] = []
        self.wanted: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=most)
        """The shapes of the last attempts, the last one last."""

    def target(self, plain: Mapping[str, Any]) -> Mapping[str, tuple[int, Mapping[str, Any]]]:
        """The wanted number of containers of each shape, with its configuration."""
        shapes = dict(self.wanted)
        counts = Counter(shape for shape, _ in self.wanted)
        lacking = self.most - sum(counts.values())
        if lacking:
            shape = shape_of(plain)
            shapes[shape] = plain
            counts[shape] += lacking
        return {shape: (number, shapes[shape]) for shape, number in counts.items()}


class WarmPool:
    """The warm containers of one executor."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        images: Images,
        prepared: PreparedImages,
        warm: WarmImages,
        labels: Mapping[str, str],
        watch: WarmWatch | None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._images = images
        self._prepared = prepared
        self._labels = labels
        self._watch = watch
        self._warm = {read_image(name).pulled: _WarmImage(most) for name, most in warm.items()}
        self._numbers = count()
        self._lacks = asyncio.Event()
        self._lacks.set()
        self.known: set[str] = set()
        """The numbers of all that were made here and are not removed, also of those that were taken."""

    @property
    def ready(self) -> int:
        """The number of containers that wait."""
        return sum(len(each.ready) for each in self._warm.values())

    async def take(self, image: str, config: Mapping[str, Any], name: str) -> str | None:
        """One of this shape, renamed for an attempt; None: there is none. Raises `EngineAway`, and `EngineRefused` with
        409 for a name that is taken."""
        warm = self._warm.get(read_image(image).pulled)
        if warm is None:
            return None
        shape = shape_of(config)
        warm.wanted.append((shape, config))
        self._lacks.set()
        while (found := _first(warm.ready, shape)) is not None:
            warm.ready.remove(found)
            try:
                await self._engine.rename(found.container_id, name)
            except EngineRefused as refused:
                if refused.status == 409:
                    warm.ready.append(found)
                    raise
                self.known.discard(found.container_id)
                self._lacks.set()
                continue  # it was removed
            except BaseException:  # perhaps it has the new name: the sweep decides
                self.known.discard(found.container_id)
                raise
            self._count("taken")
            return found.container_id
        self._count("missed")
        return None

    async def keep_full(self) -> None:
        """Make those that lack, one after the other, and remove those that nobody wants any more; for ever."""
        while True:
            await self._lacks.wait()
            self._lacks.clear()
            try:
                for image, warm in self._warm.items():
                    await self._fill(image, warm)
            except (EngineAway, EngineRefused, ContainerFault) as error:
                _logger.warning("no warm containers for now: %s", error)
                self._lacks.set()
                await self._clock.sleep(RETRY_SECONDS)

    async def _fill(self, image: str, warm: _WarmImage) -> None:
        facts = await self._images.image_for(image, "missing")
        prepared = await self._prepared.of(facts)
        try:
            await self._fill_of(image, warm, prepared)
        except EngineRefused as refused:
            if is_image_missing(refused):
                self._prepared.forget(facts)
            raise

    async def _fill_of(self, image: str, warm: _WarmImage, prepared: PreparedImage) -> None:
        if not (prepared.has_folders and prepared.has_shell):
            _logger.warning("no warm containers of %s: it has no /bin/sh, or the engine cannot prepare it", image)
            return
        plain = plain_config(prepared, self._images.policy)
        target = {
            shape: wish for shape, wish in warm.target(plain).items() if wish[1]["Image"] == prepared.made_from
        } or {shape_of(plain): (warm.most, plain)}
        kept = Counter[str]()
        for each in tuple(warm.ready):
            kept[each.shape] += 1
            if kept[each.shape] > target.get(each.shape, (0, {}))[0]:
                warm.ready.remove(each)
                await self.remove(each.container_id)
        for shape, (number, config) in target.items():
            have = sum(each.shape == shape for each in warm.ready)
            for _ in range(min(number - have, warm.most - len(warm.ready))):
                warm.ready.append(await self._made(image, shape, config))
                self._show()

    async def _made(self, image: str, shape: str, config: Mapping[str, Any]) -> WarmContainer:
        name = f"{WARM_NAME}.{self._labels[EXECUTOR]}.{next(self._numbers)}"
        labels = {**self._labels, IMAGE: image}
        making = asyncio.ensure_future(self._engine.create(name, {**config, "Env": [], "Labels": labels}))
        try:
            container = await asyncio.shield(making)
        except asyncio.CancelledError:
            with contextlib.suppress(EngineAway, EngineRefused):
                await self._engine.remove(await making)  # the engine makes it all the same
            raise
        self.known.add(container)
        self._count("made")
        return WarmContainer(container, name, shape)

    async def beat(self) -> None:
        """Rename one that waits, so that other executors see that this one lives. Raises `EngineAway`."""
        for warm in self._warm.values():
            if warm.ready:
                first = warm.ready.pop(0)
                name = f"{WARM_NAME}.{self._labels[EXECUTOR]}.{next(self._numbers)}"
                try:
                    await self._engine.rename(first.container_id, name)
                except EngineRefused as refused:
                    _logger.warning("a warm container is gone: %s", refused.message)
                    self.known.discard(first.container_id)
                    self._lacks.set()
                except BaseException:
                    warm.ready.append(first)
                    raise
                else:
                    warm.ready.append(first._replace(name=name))
                return

    async def remove(self, container: str) -> None:
        """Remove one. Raises `EngineAway`, and `EngineRefused`."""
        self._count("removed")
        await self._engine.remove(container)
        self.known.discard(container)

    async def close(self) -> None:
        """Remove all that wait, as far as the engine answers."""
        left: Sequence[WarmContainer] = [each for warm in self._warm.values() for each in warm.ready]
        for warm in self._warm.values():
            warm.ready.clear()
        for each in left:
            try:
                await self.remove(each.container_id)
            except (EngineAway, EngineRefused) as error:
                _logger.warning("a warm container is not removed: %s", error)
        self._show()

    def _count(self, event: str) -> None:
        if self._watch is not None:
            self._watch.warm_container(event)
        self._show()

    def _show(self) -> None:
        if self._watch is not None:
            self._watch.warm_containers(self.ready)


def shape_of(config: Mapping[str, Any]) -> str:
    """Everything that makes containers different, as one text."""
    return json.dumps(config, sort_keys=True)


def _first(ready: Sequence[WarmContainer], shape: str) -> WarmContainer | None:
    return next((each for each in ready if each.shape == shape), None)
