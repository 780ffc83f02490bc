"""Every setting is declared once, explained, and in the reference."""

from __future__ import annotations

import re

from tests.style import settings_page, tree
from tickwise.config import SETTINGS


def test_the_reference_says_what_the_declarations_say() -> None:
    """The page is what the generator writes: run `python -m tests.style.settings_page` after a change."""
    assert settings_page.page() == tree.read(settings_page.PLACE)


def test_every_setting_is_declared_with_a_meaning() -> None:
    """No field of the settings escapes the table, and each says what it is for."""
    assert settings_page.missing_meanings() == []


def test_every_setting_has_an_effect() -> None:
    """Each is read somewhere; one that nobody reads would be accepted and ignored."""
    places = [place for place in tree.python_files("src") if "/config/" not in place]
    read = {name for place in places for name in re.findall(r"\bsettings\.(\w+)", tree.read(place))}
    assert [] == [name for name in SETTINGS if name not in read]
