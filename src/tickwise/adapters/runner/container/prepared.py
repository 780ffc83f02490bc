"""Images with the folders of a task: each image is prepared once on an engine, and its containers are made from that.

    image ──► a container that never runs ──► the folders ──► commit ──► localhost/tickwise-prepared:1-<its number>
                                              └── is there a /bin/sh?

Docker unpacks an archive by a process of its own, which costs 45 ms of the start of every container. A volume takes the
folders of its image at no cost that could be measured. Every executor on the engine finds the prepared image by its
name.

Invariant: a prepared image adds empty folders to the image that a task names, and nothing else. No task may name, and
so pull, an image of that name: a foreign one would take the place of an allowed image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.container.engine import NOT_FOUND, Engine, EngineRefused, ImageFacts
from tickwise.adapters.runner.container.handover import packed_folders
from tickwise.adapters.runner.container.names import EXECUTOR, WARM_NAME
from tickwise.adapters.runner.container.references import PREPARED_NAME
from tickwise.adapters.runner.container.start_script import SHELL
from tickwise.ports.clock import Clock

FOLDERS_VERSION: Final = 1
"""It counts the changes of the folders."""
HAS_SHELL: Final = "tickwise.shell"
UNUSED_SECONDS: Final = 3_600.0
"""A prepared image that no attempt of this executor used for so long is removed. The next attempt makes it again."""

_logger = logging.getLogger(__name__)


class PreparedImage(NamedTuple):
    """An image, and the one that its containers are made from."""

    image: ImageFacts
    made_from: str
    """The number of the prepared image; of the image itself, where the engine could make no other."""
    has_folders: bool
    has_shell: bool


class PreparedImages:
    """The prepared images of one engine."""

    def __init__(self, engine: Engine, clock: Clock, labels: Mapping[str, str]) -> None:
        """`labels`: of the containers of this executor, so that a sweep finds one that never got to its image."""
        self._engine = engine
        self._clock = clock
        self._labels = labels
        self._seeds = count()
        self._known: dict[str, PreparedImage] = {}
        self._used: dict[str, float] = {}
        self._making: dict[str, asyncio.Lock] = {}

    async def of(self, image: ImageFacts) -> PreparedImage:
        """The prepared image of this one, made if it is not there. Raises `EngineAway`."""
        self._used[image.image_id] = self._clock.monotonic()
        known = self._known.get(image.image_id)
        if known is None:
            async with self._making.setdefault(image.image_id, asyncio.Lock()):
                known = self._known.get(image.image_id)
                if known is None:
                    known = self._known[image.image_id] = await self._found(image)
            self._making.pop(image.image_id, None)
        return known._replace(image=image)

    def forget(self, image: ImageFacts) -> None:
        """Look for it again: it was removed."""
        self._known.pop(image.image_id, None)

    async def tidy(self) -> None:
        """Remove those that have not been used for long. Raises `EngineAway`."""
        oldest = self._clock.monotonic() - UNUSED_SECONDS
        for number in [number for number, used in self._used.items() if used < oldest]:
            known = self._known.pop(number, None)
            del self._used[number]
            if known is not None and known.has_folders:
                try:
                    await self._engine.remove_image(known.made_from)
                except EngineRefused as refused:
                    _logger.warning("the prepared image %s is not removed: %s", known.made_from, refused.message)

    async def _found(self, image: ImageFacts) -> PreparedImage:
        name = f"{PREPARED_NAME}:{FOLDERS_VERSION}-{image.image_id.removeprefix('sha256:')}"
        try:
            found = await self._engine.image(name)
            if found is not None:
                return PreparedImage(image, found.image_id, True, found.labels.get(HAS_SHELL) == "1")
            return await self._made(image, name)
        except EngineRefused as refused:
            _logger.warning("the image %s cannot be prepared, its containers start slower: %s", image.image_id, refused)
            return PreparedImage(image, image.image_id, has_folders=False, has_shell=True)

    async def _made(self, image: ImageFacts, name: str) -> PreparedImage:
        config: dict[str, Any] = {
            "Image": image.image_id, "Labels": dict(self._labels), "HostConfig": {"NetworkMode": "none"},
        }  # fmt: skip
        if not (image.entrypoint or image.command):
            config["Cmd"] = [SHELL]  # no container is made without a program; this one never runs
        seed = await self._engine.create(f"{WARM_NAME}.{self._labels[EXECUTOR]}.seed-{next(self._seeds)}", config)
        try:
            await self._engine.put(seed, "/", packed_folders())
            has_shell = await self._engine.changed(seed, SHELL) is not None
            made = await self._engine.commit(seed, name, {HAS_SHELL: str(int(has_shell))})
        finally:
            await self._engine.remove(seed)
        return PreparedImage(image, made, has_folders=True, has_shell=has_shell)


def is_image_missing(refused: EngineRefused) -> bool:
    """Check whether a container could not be made for lack of its image."""
    return refused.status == NOT_FOUND and "image" in refused.message.lower()
