"""The image of an attempt: may it be used, is it there, and which one is it exactly.

    policy ──► pull, if the task says so ──► inspect ──► digest ──► the number of the image

A container is made from the number, so nothing changes between the look and the start. Of several attempts that want
one image pulled, one pulls.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Final

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.engine import Engine, EngineRefused, ImageFacts
from tickwise.adapters.runner.container.references import (
    DEFAULT_REGISTRY,
    PREPARED_NAME,
    ImageName,
    is_allowed,
    read_image,
)
from tickwise.adapters.runner.containers import (
    IMAGE_DENIED,
    IMAGE_DIGEST_DIFFERS,
    IMAGE_MISSING,
    IMAGE_PULL_FAILED,
    IMAGE_REFUSED,
    ContainerPolicy,
)
from tickwise.domain.errors import Misconfigured
from tickwise.ports.runner import Verdict

DOCKER_HUB: Final = "https://index.docker.io/v1/"
"""The name of docker.io in files of credentials."""
MAX_REGISTRY_FILE: Final = 1 << 20
_DENIED: Final = ("unauthorized", "denied", "authentication required", "no basic auth credentials", "forbidden")
_MISSING: Final = ("not found", "manifest unknown", "does not exist", "name unknown")


class Images:
    """The images of one engine, by one policy."""

    def __init__(self, engine: Engine, policy: ContainerPolicy) -> None:
        self._engine = engine
        self.policy = policy
        self._pulling: dict[str, asyncio.Lock] = {}

    async def image_for(self, text: str, pull: str) -> ImageFacts:
        """The image of this name. Raises `ContainerFault`, and what the engine raises."""
        name = read_image(text)
        refused = image_refusal(name, self.policy)
        if refused is not None:
            raise ContainerFault(IMAGE_REFUSED, refused)
        found = None if pull == "always" else await self._found(name)
        if found is None and pull != "never":
            async with self._pulling.setdefault(name.pulled, asyncio.Lock()):
                found = None if pull == "always" else await self._found(name)
                if found is None:
                    await self._pulled(name)
            self._pulling.pop(name.pulled, None)
            found = await self._found(name)
        if found is not None:
            return found
        await self._refuse_other_digest(name)
        raise ContainerFault(
            IMAGE_MISSING, f"the engine has no image {text}, and its task says not to pull it (pull: never)"
        )

    async def _pulled(self, name: ImageName) -> None:
        """Pull it. Of a digest that its registry does not have, the cause may be that the name means another one."""
        try:
            await self._pull(name)
        except ContainerFault as fault:
            if fault.reason == IMAGE_MISSING:
                await self._refuse_other_digest(name)
            raise

    async def _refuse_other_digest(self, name: ImageName) -> None:
        """Raises `ContainerFault` if the engine has this name with another digest."""
        other = None if name.tagged is None else await self._engine.image(name.tagged)
        if other is not None and name.digest is not None:
            raise ContainerFault(
                IMAGE_DIGEST_DIFFERS,
                f"the image {name.tagged} of the engine is {exact_image(name, other)}, and not {name.digest}",
            )

    async def _found(self, name: ImageName) -> ImageFacts | None:
        """The image on the engine, with its digest if one is said."""
        if name.digest is None:
            return await self._engine.image(name.pulled)
        known = await self._engine.image(name.pulled)
        if known is None:
            # An image that came from no registry is known by its own number.
            known = await self._engine.image(name.digest)
            if known is None or (name.tagged is not None and not await self._is_tagged(name.tagged, known)):
                return None
            return known
        return known

    async def _is_tagged(self, tagged: str, image: ImageFacts) -> bool:
        found = await self._engine.image(tagged)
        return found is not None and found.image_id == image.image_id

    async def _pull(self, name: ImageName) -> None:
        seconds = self.policy.pull_seconds
        try:
            await self._engine.pull(name.pulled, self._credentials(name.registry), seconds)
        except TimeoutError:
            raise ContainerFault(
                IMAGE_PULL_FAILED, f"the image {name.pulled} was not pulled within {seconds:g} s", Verdict.FAILED
            ) from None
        except EngineRefused as refused:
            raise _pull_fault(name, refused.message) from None

    def _credentials(self, registry: str) -> Mapping[str, str] | None:
        """Of the file that the settings name; read at each pull, so that a new one counts at once."""
        file = self.policy.registry_file
        if file is None:
            return None
        try:
            with file.open("rb") as opened:
                said = json.loads(opened.read(MAX_REGISTRY_FILE))["auths"]
        except (OSError, ValueError, KeyError, TypeError):
            raise Misconfigured(
                f"the credentials of registries in {file} cannot be read; it has the form of Docker's config.json"
            ) from None
        found = said.get(registry) or said.get(f"https://{registry}")
        if found is None and registry == DEFAULT_REGISTRY:
            found = said.get(DOCKER_HUB)
        if not isinstance(found, dict):
            return None
        if "auth" in found:
            user, _, password = base64.b64decode(found["auth"]).decode().partition(":")
        else:
            user, password = str(found.get("username", "")), str(found.get("password", ""))
        return {"username": user, "password": password, "serveraddress": registry}


def exact_image(name: ImageName, image: ImageFacts) -> str:
    """The image with its digest in the registry that it is named by; its own number, if it came from none."""
    for each in image.digests:
        known = read_image(each)
        if known.repository_name == name.repository_name:
            return f"{known.repository_name}@{known.digest}"
    return image.image_id


def image_refusal(name: ImageName, policy: ContainerPolicy) -> str | None:
    """The reason for which the policy does not allow an image; None: it does."""
    said = name.tagged or name.pulled
    if name.repository_name == PREPARED_NAME:
        return f"the image {said} is one that executors make for themselves: name the image that it was made of"
    if not policy.images:
        return f"this executor allows no images, and so not {said}: name those in TICKWISE_CONTAINER_IMAGES"
    if not is_allowed(name, policy.images):
        allowed = ", ".join(policy.images)
        return f"this executor does not allow the image {said}; TICKWISE_CONTAINER_IMAGES allows {allowed}"
    if policy.needs_digest and name.digest is None:
        return f"this executor wants the digest of each image (TICKWISE_CONTAINER_DIGESTS): write {said}@sha256:…"
    return None


def _pull_fault(name: ImageName, message: str) -> ContainerFault:
    """The failure of a pull, by the words of the engine."""
    lower = message.lower()
    words = f"the image {name.pulled} cannot be pulled: {message.strip()[:500]}"
    # Docker's own registry says "pull access denied … does not exist or may require 'docker login'" of both.
    if any(mark in lower for mark in _DENIED):
        return ContainerFault(IMAGE_DENIED, words)
    if any(mark in lower for mark in _MISSING):
        return ContainerFault(IMAGE_MISSING, words)
    return ContainerFault(IMAGE_PULL_FAILED, words, Verdict.FAILED)
