"""Templates in http tasks: what is one, where it may stand, and what is refused when the task is stored."""

from __future__ import annotations

from typing import Any

import pytest

from tickwise.adapters.runner.calls.rendering import TemplateValueError, Values
from tickwise.adapters.runner.calls.templates import Literal, Lookup, TemplateFault, parse
from tickwise.adapters.runner.kinds import HttpKind
from tickwise.domain.errors import Invalid


def check(**task: Any) -> Any:
    return HttpKind().check({"kind": "http", "url": "https://example.com/", **task})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{{ payload.order.id }}", ("payload", "order", "id")),
        ("{{payload}}", ("payload",)),
        ("{{ payload.items.0 }}", ("payload", "items", "0")),
        ('{{ payload."a b"."\\u00e9{{}}" }}', ("payload", "a b", "é{{}}")),
        ("{{ run.id }}", ("run", "id")),
    ],
)
def test_a_path_leads_to_a_value(text: str, path: tuple[str, ...]) -> None:
    """By names, numbers, and names in quotes."""
    assert (Lookup(path, text),) == parse(text)


@pytest.mark.parametrize(
    ("text", "default"),
    [('"}} none"', "}} none"), ("7", 7), ("-1.5e3", -1500.0), ("true", True), ("null", None), ('""', "")],
)
def test_a_default_is_a_scalar(text: str, default: Any) -> None:
    """As JSON writes it."""
    (found,) = parse(f"{{{{ payload.x | default({text}) }}}}")
    assert isinstance(found, Lookup)
    assert (True, default) == (found.has_default, found.default)


def test_texts_stand_around_values() -> None:
    """Also the braces themselves."""
    parts = parse('a{{ run.id }}b{{ "{{" }}}}')
    assert ["a", "b", "}}"] == [part for part in parts if isinstance(part, str)]
    assert Literal("{{", '{{ "{{" }}') == parts[3]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("{{ order.id }}", "did you mean {{ payload.order.id }}"),
        ("{{ paylod.id }}", "did you mean {{ payload.id }}"),
        ("{{ run.ids }}", "did you mean {{ run.id }}"),
        ("{{ run.secret }}", "there are id, due"),
        ("{{ run }}", "there are id, due"),
        ("{{ run.id.x }}", "did you mean {{ run.id }}"),
        ("{{ payload.items[0] }}", "write {{ payload.items.0 }}"),
        ("{{ payload['a b'] }}", 'write {{ payload."a b" }}'),
        ("{{ payload.x | upper }}", "the only filter is a default"),
        ("{{ payload.x | default(y) }}", "a default is a text in double quotes"),
        ("{{ payload.x | default([1]) }}", "a default is a text in double quotes"),
        ("{{ payload.x + 1 }}", "with no signs beside it"),
        ("{{ payload.x() }}", "with no signs beside it"),
        ("{{ }}", "a value is a path"),
        ("{{", "nothing closes it"),
        ("{{ payload.x", "nothing closes it"),
        ("{{ payload.'a' }}", "a text is in double quotes"),
        ('{{ "\\ud800" }}', "half of a surrogate pair"),
        ("{{ payload" + ".a" * 25 + " }}", "at most 20 names"),
        ("{{ run.id }}" * 300, "more than 100 values"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_hint(text: str, hint: str) -> None:
    """It says what to write."""
    with pytest.raises(TemplateFault) as refused:
        parse(text)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    "text", ["{{" * 200_000, "{{ payload" * 50_000, '{{ "' + '\\"' * 100_000, "{{" + " " * 300_000]
)
def test_a_text_that_is_made_to_be_slow_is_refused_at_once(text: str) -> None:
    """Its time grows with its length."""
    with pytest.raises(TemplateFault):
        parse(text)


@pytest.mark.parametrize(
    ("task", "pointer"),
    [
        ({"url": "{{ payload.url }}"}, "/url"),
        ({"url": "{{ payload.scheme }}://example.com/"}, "/url"),
        ({"url": "https://{{ payload.host }}/"}, "/url"),
        ({"url": "https://example.com{{ payload.path }}"}, "/url"),
        ({"url": "https://example.com:{{ payload.port }}/"}, "/url"),
        ({"url": "https://{{ payload.user }}@example.com/"}, "/url"),
        ({"url": "https://a\\{{ payload.host }}/"}, "/url"),
        ({"url": "https://example.com/#{{ payload.x }}"}, "/url"),
        ({"url": "https://example.com/{{ payload.x"}, "/url"),
        ({"query": {"a": "{{ x }}"}}, "/query/a"),
        ({"query": {"{{ payload.x }}": "a"}}, "/query/{{ payload.x }}"),
        ({"query": {"a": {"b": 1}}}, "/query/a"),
        ({"query": {"a": None}}, "/query/a"),
        ({"query": ["a"]}, "/query"),
        ({"headers": {"X-A": "{{ payload.x | safe }}"}}, "/headers/X-A"),
        ({"headers": {"Host": "{{ payload.x }}"}}, "/headers/Host"),
        ({"headers": {"content-type": "{{ payload.x }}"}}, "/headers/content-type"),
        ({"method": "POST", "body": {"a": ["{{ x }}"]}}, "/body/a/0"),
        ({"method": "POST", "body": {"{{ payload.x }}": 1}}, "/body"),
        ({"method": "POST", "body": '{"a": "{{ payload.x }}"}'}, "/body"),
        ({"method": "POST", "body": "<a>{{ payload.x }}</a>", "headers": {"Content-Type": "text/xml"}}, "/body"),
        (
            {
                "method": "POST",
                "body": "a={{ payload.x }}",
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
            },
            "/body",
        ),
        ({"method": "POST", "body": "a", "form": {"b": "c"}}, "/form"),
        ({"form": {"b": "c"}}, "/form"),
        ({"templates": "yes"}, "/templates"),
    ],
)
def test_a_template_in_a_place_without_a_rule_is_refused(task: dict[str, Any], pointer: str) -> None:
    """When the task is stored, with a pointer to it."""
    with pytest.raises(Invalid) as refused:
        check(**task)
    assert pointer == refused.value.pointer


def test_a_task_with_templates_says_so_and_one_without_stays_as_it_was() -> None:
    """A task that was stored before there were templates sends its braces as they are."""
    assert check(headers={"X-A": "{{ run.id }}"})["templates"] is True
    assert "templates" not in check(headers={"X-A": "{ run.id }"})
    literal = check(headers={"X-A": "{{ anything"}, templates=False)
    assert literal["templates"] is False
    assert literal == HttpKind().check(literal)


def values(payload: bytes = b"{}", **facts: Any) -> Values:
    return Values(payload, {"id": "r-1", "attempt": 2, **facts})


def test_numbers_are_sent_as_they_were_written() -> None:
    """Neither a long one nor one with many decimals is rounded."""
    payload = b'{"a": 1.10, "b": 123456789012345678901234567890, "c": 0.1000000000000000055511151231257827, "d": -0}'
    here = values(payload)
    assert "1.10" == here.plain("{{ payload.a }}", "the body")
    assert "0.1000000000000000055511151231257827" == here.plain("{{ payload.c }}", "the body")
    assert b"123456789012345678901234567890" == bytes(here.json("{{ payload.b }}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ payload.a.b }}", "`payload.a` is null and has no `b`"),
        ("{{ payload.b }}", "`payload` has no field `b`"),
        ("{{ payload.list.3 }}", "`payload.list` has 2 items, and none is `3`"),
        ("{{ payload.list }}", "is an array"),
        ("{{ payload }}", "is an object"),
        ("{{ payload.a }}", "is null"),
        ("{{ payload.n.x }}", "is a number"),
        ("{{ payload.__class__ }}", "has no field `__class__`"),
        ("{{ payload.list.-1 }}", "none is `-1`"),
    ],
)
def test_a_value_that_is_not_there_is_told_in_words(text: str, words: str) -> None:
    """With a default to give."""
    with pytest.raises(TemplateValueError) as refused:
        values(b'{"a": null, "list": [1, 2], "n": 1.5}').plain(text, "the body")
    assert words in str(refused.value)


def test_a_default_stands_for_what_is_missing_or_null() -> None:
    """In a text; in JSON null is a value."""
    here = values(b'{"a": null}')
    assert "-" == here.plain('{{ payload.a | default("-") }}', "the body")
    assert "-" == here.plain('{{ payload.b.c | default("-") }}', "the body")
    assert b"null" == bytes(here.json('{{ payload.a | default("-") }}'))


def test_the_values_of_a_request_have_a_room() -> None:
    """A large value that is named often does not fill the memory."""
    here = values(b'{"a": "' + b"x" * (1 << 20) + b'"}')
    with pytest.raises(TemplateValueError, match="more than"):
        here.json(["{{ payload.a }}"] * 50)
