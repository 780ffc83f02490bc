"""The places of a task where references to secrets take effect.

    env of any task                                    the whole value: `secret:NAME`, `secret-file:NAME`
    headers, query, form, body of an http task         the whole text: `secret:NAME`; or as a part of it, where the
                                                       task has templates: `Bearer {{ secret.NAME }}`
    sign.secrets, oauth.client_secret, tls.key         the whole value: `secret:NAME`

Every other text that looks like a reference is a plain text. Pure, and light: the API reads it for each task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.references import OWN_PROVIDER, Injection, SecretReference, read_reference

SECRET: Final = "secret"
"""The first name of a template that stands for a secret."""
FIXED_HEADERS: Final = frozenset({"host", "content-type", "content-encoding", "accept-encoding", "expect"})
"""Headers that say where a message goes and how it is read: a value in them could change what all others mean."""

_STRING: Final = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_NAME: Final = rf"\.(?:[A-Za-z0-9_-]{{1,200}}|{_STRING})"
_TEMPLATE: Final = re.compile(rf"\{{\{{[ \t]*{SECRET}((?:{_NAME})+)[ \t]*\}}\}}")
"""As `adapters.runner.calls.templates` reads one."""
_NAMES: Final = re.compile(_NAME)
_AROUND: Final = re.compile(r"(?:(?:basic|bearer|token|apikey|api-key|key)[ \t]*[=:]?[ \t]*)?", re.IGNORECASE)
"""The text beside a template that is surely none of a secret's own."""


class Place(NamedTuple):
    """A text of a task that a reference may stand in."""

    pointer: str
    text: str
    has_templates: bool = False
    """A reference may be a part of the text."""


def reference_text(names: Collection[str]) -> str:
    """The reference that a template with these names stands for."""
    return f"{Injection.VALUE}:{'.'.join(names)}"


def places_of(task: Mapping[str, Any]) -> Iterator[Place]:
    """The texts of a checked task that references may stand in."""
    for name, value in (task.get("env") or {}).items():
        yield Place(f"/env/{_escaped(name)}", value)
    if task.get("kind") != "http":
        return
    templates = bool(task.get("templates"))
    for field in ("headers", "query", "form"):
        for name, value in (task.get(field) or {}).items():
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, str):
                    yield Place(f"/{field}/{_escaped(name)}", one, templates)
    for pointer, text in _texts(task.get("body"), "/body"):
        yield Place(pointer, text, templates)
    for place, secret in enumerate((task.get("sign") or {}).get("secrets", ())):
        yield Place(f"/sign/secrets/{place}", secret)
    for pointer, holder, field in (("/oauth/client_secret", "oauth", "client_secret"), ("/tls/key", "tls", "key")):
        if isinstance(found := (task.get(holder) or {}).get(field), str):
            yield Place(pointer, found)


def references_in(task: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of all references of a checked task, each once, in the form `secret:NAME`."""
    return tuple(dict.fromkeys(text for place in places_of(task) for text in _references(place)))


def check_references(task: Mapping[str, Any], providers: Collection[str] | None = None) -> None:
    """Raises `Invalid`, with a pointer relative to the task, for a reference that cannot be read, that its place does
    not take, or whose provider is none of `providers` (None: any)."""
    for place in places_of(task):
        try:
            found = [read_reference(text) for text in _references(place)]
        except Invalid as refusal:
            refusal.pointer = place.pointer
            raise
        for reference in found:
            if reference is not None:
                _check_place(place.pointer, reference, providers)


def _check_place(pointer: str, reference: SecretReference, providers: Collection[str] | None) -> None:
    if reference.injection is Injection.FILE and not pointer.startswith("/env/"):
        raise Invalid(f"a request has no files; write `secret:{reference.name}`", pointer=pointer)
    if pointer.startswith("/headers/") and pointer.removeprefix("/headers/").lower() in FIXED_HEADERS:
        raise Invalid(
            "this header says where a message goes or how it is read, so it has no secret in it; write it out",
            pointer=pointer,
        )
    if providers is None or reference.provider == OWN_PROVIDER or reference.provider in providers:
        return
    known = ", ".join(f"`{each}`" for each in sorted(providers) if each) or "none but Tickwise's own store"
    raise Invalid(
        f"there is no provider of secrets {reference.provider!r}; there is {known}. A secret of Tickwise's own store "
        "is `secret:NAME`, and its name has no colon",
        pointer=pointer,
        code="secret_provider_unknown",
    )


def is_shown(text: Any) -> bool:
    """Check whether a text is a reference and nothing more, so that it may be answered where secrets are masked."""
    if not isinstance(text, str):
        return False
    rest, count = _TEMPLATE.subn("", text)
    if count and _AROUND.fullmatch(rest):
        return True
    try:
        return read_reference(text) is not None
    except Invalid:
        return False


def _references(place: Place) -> Iterator[str]:
    if place.text.startswith((f"{Injection.VALUE}:", f"{Injection.FILE}:")):
        yield place.text
    elif place.has_templates and SECRET in place.text:
        for found in _TEMPLATE.finditer(place.text):
            names = (name[1:] for name in _NAMES.findall(found.group(1)))
            yield reference_text([json.loads(name) if name.startswith('"') else name for name in names])


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value that is no name, with a pointer to it."""
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, str):
            yield place, one
        elif isinstance(one, Mapping):
            waiting.extend((f"{place}/{_escaped(name)}", inner) for name, inner in one.items())
        elif isinstance(one, list | tuple):
            waiting.extend((f"{place}/{number}", inner) for number, inner in enumerate(one))


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
