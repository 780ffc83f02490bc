"""YAML as a tree that knows its lines, read without building any object, and without trusting what it says.

Documents are parted at their `---` lines first, so that one that cannot be read leaves the others readable. Aliases
stay references: what they repeat is never copied. Nesting is bounded while it is read, and each walk of the tree bounds
what it takes from it. Merge keys (`<<`) are followed; a key that stands twice in a mapping is refused, because readers
of YAML disagree on which one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from tickwise.importers.translation import Untranslatable

MAX_NESTING: Final = 50
"""A manifest has about a dozen levels."""
MAX_MERGES: Final = 100
"""In one mapping, those of what it merges included."""
MAX_ITEMS: Final = 2_000_000
"""Keys and items that are looked at in one file, those behind an alias each time: a few lines of aliases could ask for
billions. The largest file that is read has about a quarter of this."""

_DOCUMENT_BEGINS = re.compile(r"^---(?=\s|$)", re.MULTILINE)


class Document(NamedTuple):
    """One document of a file."""

    line: int
    """Of the file, counted from 1."""
    root: yaml.Node | None
    failure: Untranslatable | None = None
    """The reason why there is no tree."""


_EVENTS: Final[type[yaml.SafeLoader | yaml.CSafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser. libyaml is in every wheel and five times faster, but its composer recurses in C without a bound: only its
events are taken."""


class _Composer(Composer, Resolver):
    """Composes trees of the events; refuses those that are too deep before Python does."""

    def __init__(self, text: str) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        events = _EVENTS(text)
        self.check_event, self.get_event, self.peek_event = events.check_event, events.get_event, events.peek_event
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise Untranslatable(f"it is nested in more than {MAX_NESTING} levels; flatten it")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def documents(text: str) -> Iterator[Document]:
    """The documents of a file that say anything."""
    begins = [0, *(match.start() for match in _DOCUMENT_BEGINS.finditer(text) if match.start())]
    line = 1
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        part = text[begin:end]
        yield from _document(part, line)
        line += part.count("\n")


def _document(text: str, first_line: int) -> Iterator[Document]:
    try:
        # `compose` would refuse a second document, which `...` or a directive may begin within this part.
        composer = _Composer(text)
        while composer.check_node():
            root = composer.get_node()
            if root is not None:
                yield Document(first_line + root.start_mark.line, root)
    except Untranslatable as failure:
        yield Document(first_line, None, failure)
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        line = first_line + (mark.line if mark else 0)
        hint = "; render the template first (`helm template`)" if "{{" in text else ""
        problem = (failure.problem or failure.context or "it is broken")[:200]
        yield Document(line, None, Untranslatable(f"line {line} cannot be read as YAML: {problem}{hint}"))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as failure:
        # Characters that YAML does not have, and numbers in escapes and directives that PyYAML trips over.
        problem = str(failure).splitlines()[0][:200] if str(failure) else "it is broken"
        yield Document(first_line, None, Untranslatable(f"it cannot be read as YAML: {problem}"))


class Budget:
    """The number of keys and items of a file that may still be read."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def spend(self, items: int) -> None:
        """Raises `Untranslatable` when there is nothing left."""
        self._left -= items
        if self._left < 0:
            raise Untranslatable("the aliases of the file repeat too much of it; split it into several files")


class Mapping:
    """A mapping by its keys. `path` says where it stands, for messages; `first_line` where its document begins."""

    def __init__(self, node: yaml.Node, budget: Budget, path: str = "", first_line: int = 1) -> None:
        """Raises `Untranslatable` if it is no mapping, or has a key twice."""
        self.path = path
        self._budget = budget
        self._first_line = first_line
        if not isinstance(node, yaml.MappingNode):
            raise Untranslatable(f"{path or 'the document'} is no mapping; write `name: value` lines there")
        self._merges = 0
        self._members = self._read(node)

    def _read(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        self._budget.spend(len(node.value))
        own: dict[str, yaml.Node] = {}
        merged: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self._merges += 1
                    if self._merges > MAX_MERGES:
                        raise Untranslatable(f"{self.path} merges more than {MAX_MERGES} mappings; write them out")
                    if isinstance(source, yaml.MappingNode):
                        merged = {**self._read(source), **merged}
            elif isinstance(key, yaml.ScalarNode):
                if key.value in own:
                    line = self._first_line + key.start_mark.line
                    raise Untranslatable(
                        f"`{key.value[:50]}` stands twice in {self.path or 'the document'}, again in line {line}; "
                        "remove one of them, or begin a document of its own with a line `---`"
                    )
                own[key.value] = value
        return {**merged, **own}

    def names(self) -> list[str]:
        """The keys that have a value; an empty list or mapping is none."""
        return [name for name, node in self._members.items() if not self._is_null(name) and node.value != []]

    def _is_null(self, name: str) -> bool:
        node = self._members.get(name)
        return node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null")

    def mapping(self, name: str) -> Mapping | None:
        """The mapping under a key; None if there is none."""
        return None if self._is_null(name) else self._inner(self._members[name], self._below(name))

    def _inner(self, node: yaml.Node, path: str) -> Mapping:
        return Mapping(node, self._budget, path, self._first_line)

    def text(self, name: str) -> str | None:
        """The scalar under a key as it is written; None if there is none."""
        if self._is_null(name):
            return None
        node = self._members[name]
        if not isinstance(node, yaml.ScalarNode):
            raise Untranslatable(
                f"{self._below(name)} is no single value; write a text or a number (a template is rendered first)"
            )
        return str(node.value)

    def whole_number(self, name: str) -> int | None:
        """The number under a key, at least 0; None if there is none."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII):
            raise Untranslatable(f"{self._below(name)} is {text[:30]!a}; write a whole number of at least 0")
        return int(text)

    def flag(self, name: str) -> bool:
        """Check whether the value under a key is true."""
        return (self.text(name) or "").lower() in ("true", "yes", "on")

    def sequence(self, name: str, most: int) -> list[yaml.Node]:
        """The nodes of the list under a key, `most` of them at most; empty if there is none."""
        if self._is_null(name):
            return []
        node = self._members[name]
        if not isinstance(node, yaml.SequenceNode):
            raise Untranslatable(f"{self._below(name)} is no list; write `- item` lines there")
        if len(node.value) > most:
            raise Untranslatable(f"{self._below(name)} has {len(node.value)} items, {most} are the most")
        self._budget.spend(len(node.value))
        return list(node.value)

    def mappings(self, name: str, most: int) -> list[Mapping]:
        """The mappings of the list under a key."""
        nodes = self.sequence(name, most)
        return [self._inner(node, f"{self._below(name)}[{place}]") for place, node in enumerate(nodes)]

    def texts(self, name: str, most: int) -> list[str]:
        """The scalars of the list under a key."""
        nodes = self.sequence(name, most)
        if not all(isinstance(node, yaml.ScalarNode) for node in nodes):
            raise Untranslatable(f"{self._below(name)} has an item that is no text; put it in quotation marks")
        return [str(node.value) for node in nodes]

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name
