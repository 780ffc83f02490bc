"""The places of templates in an http task, checked when the task is stored.

    url      behind the host: `/orders/{{ payload.id }}?day={{ run.due }}`; never in scheme, host, port or fragment
    query    in values; null leaves a parameter out
    headers  in values, except for those that say where a message goes and how it is read
    body     in the texts of a JSON value; in a text only as `text/plain`
    form     in values

Everything else has no rule by which a value could be escaped, and is refused with the way to write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tickwise.adapters.runner.calls.addresses import check_url
from tickwise.adapters.runner.calls.templates import (
    IDENTITY_TOKEN,
    OPEN,
    Lookup,
    Part,
    TemplateFault,
    has_templates,
    parse,
)
from tickwise.adapters.runner.checks import json_type
from tickwise.domain.errors import Invalid
from tickwise.domain.masking import MASK
from tickwise.domain.secrets.places import FIXED_HEADERS, SECRET

MAX_PARAMETERS: Final = 200
MAX_PARAMETER_CHARACTERS: Final = 100_000
FORM_TYPE: Final = "application/x-www-form-urlencoded"
TEXT_TYPE: Final = "text/plain"
TEMPLATES: Final = "templates"

_ORIGIN: Final = re.compile(r"https?://[^/?#\\]+[/?]", re.IGNORECASE)


def uses_templates(task: Mapping[str, Any]) -> bool:
    """Check whether a task that was sent has templates. Raises `Invalid`."""
    said = task.get(TEMPLATES)
    if said is not None and not isinstance(said, bool):
        raise Invalid(f"`{TEMPLATES}` is true or false, not {json_type(said)}", pointer=f"/{TEMPLATES}")
    if said is False:
        return False
    return any(has_templates(task.get(name)) for name in ("url", "query", "headers", "body", "form"))


def checked_url(url: str) -> str:
    """An address with templates in its path and query. Raises `Invalid`."""
    parts = _parsed(url, "/url")
    first = parts[0]
    if not isinstance(first, str) or (len(parts) > 1 and _ORIGIN.match(first) is None):
        raise Invalid(
            "a value stands only behind the host, as in `https://example.com/{{ payload.id }}`: scheme, host and port "
            "are written out",
            pointer="/url",
        )
    seen = ""
    for part in parts:
        if isinstance(part, str):
            seen += part
        elif isinstance(part, Lookup) and part.path[0] == SECRET:
            raise Invalid(
                "an address has no secret in it, because addresses are written into logs; send it in a header, or as a "
                "parameter in `query`",
                pointer="/url",
            )
        elif "#" in seen:
            raise Invalid("a value behind `#` is never sent; write it before that", pointer="/url")
        else:
            seen += "0"
    check_url(seen, pointer="/url")
    return url


def checked_headers(headers: Mapping[str, str]) -> None:
    """The templates of headers. Raises `Invalid`."""
    for name, value in headers.items():
        pointer = "/headers/" + name.replace("~", "~0").replace("/", "~1")
        if OPEN not in value:
            continue
        if name.lower() in FIXED_HEADERS:
            raise Invalid(
                f"the header `{name}` says where a message goes or how it is read, so it has no values in it; write it "
                "out",
                pointer=pointer,
            )
        _parsed(value, pointer)


def checked_body(body: Any, headers: Mapping[str, str]) -> None:
    """The templates of a body. Raises `Invalid`."""
    if not isinstance(body, str):
        for pointer, text, is_name in _texts(body, "/body"):
            if is_name and OPEN in text:
                raise Invalid("a name of a field has no values in it", pointer=pointer)
            if not is_name:
                _parsed(text, pointer)
        return
    if not any(not isinstance(part, str) for part in _parsed(body, "/body")):
        return
    media_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type == TEXT_TYPE:
        return
    if media_type == FORM_TYPE:
        raise Invalid("write the fields of a form as `form`, which escapes their values", pointer="/body")
    raise Invalid(
        "a text has no rule by which a value in it could be escaped: write `body` as a JSON object, or a form as "
        f"`form`; a plain text has the header `Content-Type: {TEXT_TYPE}`. To send the braces as they are, set "
        f"`{TEMPLATES}` to false",
        pointer="/body",
    )


def checked_parameters(said: Any, field: str, *, templates: bool) -> Mapping[str, Any]:
    """`query` or `form`: texts, numbers and booleans by name. Raises `Invalid`."""
    if not isinstance(said, Mapping):
        raise Invalid(f"`{field}` must be an object, not {json_type(said)}", pointer=f"/{field}")
    if len(said) > MAX_PARAMETERS:
        raise Invalid(f"`{field}` has {len(said)} fields, {MAX_PARAMETERS} are the most", pointer=f"/{field}")
    for name, value in said.items():
        pointer = f"/{field}/" + str(name).replace("~", "~0").replace("/", "~1")
        if templates and OPEN in name:
            raise Invalid("a name of a parameter has no values in it", pointer=pointer)
        for one in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(one, str | int | float):
                raise Invalid(
                    f"a parameter is a text, a number, true or false, or a list of these; this is {json_type(one)}",
                    pointer=pointer,
                )
            if isinstance(one, str):
                _checked_parameter(one, pointer, templates=templates)
    return dict(said)


def _checked_parameter(text: str, pointer: str, *, templates: bool) -> None:
    if len(text) > MAX_PARAMETER_CHARACTERS:
        raise Invalid(f"a parameter has at most {MAX_PARAMETER_CHARACTERS} characters", pointer=pointer)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("a parameter has half of a surrogate pair", pointer=pointer) from None
    if templates and text != MASK:
        _parsed(text, pointer)


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str, bool]]:
    """Every text of a JSON value with a pointer to it, and whether it is the name of a field."""
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, str):
            yield place, one, False
        elif isinstance(one, Mapping):
            for name, inner in one.items():
                yield place, name, True
                waiting.append((f"{place}/{name.replace('~', '~0').replace('/', '~1')}", inner))
        elif isinstance(one, list | tuple):
            waiting.extend((f"{place}/{number}", inner) for number, inner in enumerate(one))


def _parsed(text: str, pointer: str) -> Any:
    try:
        parts = parse(text)
    except TemplateFault as fault:
        raise Invalid(str(fault), pointer=pointer) from None
    if not pointer.startswith("/headers/") and any(_is_token(part) for part in parts):
        raise Invalid(
            "an identity token stands in a header alone, as in `Authorization: Bearer {{ identity_token }}`: addresses "
            "and bodies are kept by servers",
            pointer=pointer,
        )
    return parts


def _is_token(part: Part) -> bool:
    return isinstance(part, Lookup) and part.path[0] == IDENTITY_TOKEN
