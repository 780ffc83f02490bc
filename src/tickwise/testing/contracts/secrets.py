"""The contract of providers of secrets: a value to its own namespace alone, byte for byte, and never an exception.

A subclass gives `put`, which stores a value the way an operator would, and the provider that reads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar, Final

import pytest
import pytest_asyncio

from tickwise.domain.secrets.references import OWN_PROVIDER, read_reference
from tickwise.ports.secrets import SecretFault, SecretProvider, WantedSecret

VALUES: Final = (b"x", b"two\nlines\n", "pässword €".encode(), b'{"json": "\\"quoted\\""}', b" blanks around ")
HOSTILE: Final = (
    "", ".", "..", "../beta", "../beta/token", "a/../../beta", "/etc/passwd", "a//b", "./a", "a/.", "a\0b", "a\nb",
    "%2e%2e/beta", "..%2fbeta", "a?x=1", "a#", "a#b#c", "a b", "a;b", "a\\b", "x" * 500, "é", "*", "~root", "${HOME}",
)  # fmt: skip
"""Names that lead elsewhere where a provider pastes them into a path, an address or a shell."""


class SecretProviderContract(ABC):
    """`SecretProvider`."""

    keeps_bytes: ClassVar[bool] = True
    """It also keeps values that are no text."""

    @abstractmethod
    async def make(self) -> SecretProvider:
        """A provider of which the namespaces alpha and beta have secrets."""

    @abstractmethod
    async def put(self, namespace: str, name: str, value: bytes) -> str:
        """Store a value under a name of lower case letters; the name by which references ask for it."""

    @pytest_asyncio.fixture
    async def provider(self) -> AsyncIterator[SecretProvider]:
        """One, closed at the end."""
        made = await self.make()
        yield made
        await made.close()

    async def test_its_name_stands_in_a_reference(self, provider: SecretProvider) -> None:
        """Or is that of our own store."""
        if provider.name != OWN_PROVIDER:
            found = read_reference(f"secret:{provider.name}:token")
            assert found is not None
            assert (found.provider, found.name) == (provider.name, "token")

    async def test_a_value_comes_as_it_was_stored(self, provider: SecretProvider) -> None:
        """Byte for byte, with its line ends and blanks."""
        values = (*VALUES, bytes(range(256)), b"\xff\xfe") if self.keeps_bytes else VALUES
        for number, value in enumerate(values):
            wanted = WantedSecret("alpha", await self.put("alpha", f"value{'abcdefgh'[number]}", value))
            assert {wanted: value} == await provider.values([wanted])

    async def test_a_large_value_comes_whole(self, provider: SecretProvider) -> None:
        """Half a megabyte."""
        value = b"0123456789abcdef" * (1 << 15)
        wanted = WantedSecret("alpha", await self.put("alpha", "large", value))
        assert {wanted: value} == await provider.values([wanted])

    async def test_a_namespace_gets_its_own_value(self, provider: SecretProvider) -> None:
        """Also where another one has a secret of that name."""
        names = {each: await self.put(each, "token", f"of {each}".encode()) for each in ("alpha", "beta")}
        wanted = [WantedSecret(each, names[each]) for each in names]
        assert [b"of alpha", b"of beta"] == [*(await provider.values(wanted)).values()]

    async def test_a_secret_of_another_namespace_is_not_there(self, provider: SecretProvider) -> None:
        """Nor does the answer say that it is there."""
        name = await self.put("beta", "mine", b"the value of beta")
        wanted, never = WantedSecret("alpha", name), WantedSecret("alpha", name.replace("mine", "none"))
        found = await provider.values([wanted, never])
        assert isinstance(one := found[wanted], SecretFault)
        assert isinstance(other := found[never], SecretFault)
        assert one.detail.replace("mine", "none") == other.detail
        assert not one.is_passing

    async def test_a_namespace_that_has_none_gets_none(self, provider: SecretProvider) -> None:
        """One that nobody has heard of."""
        wanted = WantedSecret("gamma", await self.put("alpha", "token", b"of alpha"))
        found = (await provider.values([wanted]))[wanted]
        assert isinstance(found, SecretFault)
        assert not found.is_passing

    async def test_each_question_has_its_answer(self, provider: SecretProvider) -> None:
        """Of many in one call, of which some are there twice and some not at all."""
        names = [await self.put("alpha", f"many{letter}", letter.encode()) for letter in "abcdefghij"]
        missing = WantedSecret("alpha", names[0].replace("many", "none"))
        wanted = [WantedSecret("alpha", name) for name in names]
        found = await provider.values([*wanted, missing, *wanted])
        assert {*wanted, missing} == {*found}
        assert [letter.encode() for letter in "abcdefghij"] == [found[each] for each in wanted]
        assert isinstance(found[missing], SecretFault)
        assert {} == await provider.values([])

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_a_name_that_leads_elsewhere_has_no_value(self, provider: SecretProvider, name: str) -> None:
        """It is refused, for good, and nothing is raised."""
        await self.put("beta", "token", b"the value of beta")
        wanted = WantedSecret("alpha", name)
        found = (await provider.values([wanted]))[wanted]
        assert isinstance(found, SecretFault)
        assert not found.is_passing
        assert "the value of beta" not in found.detail

    @pytest.mark.parametrize("way", ["../beta/", "x/../../beta/", "./../beta/", "/beta/", "..\\beta\\", "%2e%2e/beta/"])
    async def test_a_name_that_leads_to_another_namespace_has_no_value(
        self, provider: SecretProvider, way: str
    ) -> None:
        """However it is written: up from its own place, and down to that of the other."""
        name = await self.put("beta", "token", b"the value of beta")
        wanted = WantedSecret("alpha", f"{way}{name}")
        found = (await provider.values([wanted]))[wanted]
        assert isinstance(found, SecretFault)
        assert not found.is_passing

    @pytest.mark.parametrize("namespace", ["..", "", "beta/..", "../beta", "*", "alpha\0"])
    async def test_a_namespace_that_leads_elsewhere_has_no_value(
        self, provider: SecretProvider, namespace: str
    ) -> None:
        """Control gives none such a name; a provider does not rely on it."""
        name = await self.put("beta", "token", b"the value of beta")
        wanted = WantedSecret(namespace, name)
        assert isinstance((await provider.values([wanted]))[wanted], SecretFault)

    async def test_closing_twice_is_closing_once(self, provider: SecretProvider) -> None:
        """Also without a question before."""
        await provider.close()
        await provider.close()
