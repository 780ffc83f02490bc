"""The reference page of the settings, written from their declarations: `python -m tests.style.settings_page`."""

from __future__ import annotations

from tests.style.tree import ROOT
from tickwise.config import SETTINGS, Settings
from tickwise.config.described import Setting, allowed
from tickwise.config.files import FILES, LOCATION

PLACE = "docs/reference/settings.md"

HEAD = f"""\
# Settings

<!-- Written from src/tickwise/config by `python -m tests.style.settings_page`; a test compares the two. -->

Tickwise runs without any. Each setting is read from these places, in this order; the later place wins:

1. its default;
2. `{FILES[0]}`, then `{FILES[1]}`, in the folder that `{LOCATION}` names (either file may be absent);
3. the environment: `TICKWISE_` and the name in capitals; an empty variable counts as not set;
4. an option of the command line, where there is one.

A list is `["a", "b"]` in a file and `a,b` in the environment. A key that is not below is refused, with the file and
the nearest right name; so is a variable that looks like a slip of one. `tickwise config` shows all values
with their sources, and masks secrets: those of the `tickwise up` that runs in the data folder; without one, or with
`--here`, those of a process that is started from this shell. Keep secrets in `{FILES[1]}`, readable by the service
alone.

The context of a task (`TICKWISE_RUN_ID` and so on) and the client's `TICKWISE_URL` and `TICKWISE_API_KEY` share the
prefix and are no settings.
"""


def page() -> str:
    return HEAD + "".join(_entry(setting) for setting in SETTINGS.values())


def _entry(setting: Setting) -> str:
    facts = [f"`{setting.variable}`", f"default {_default(setting)}", allowed(setting)]
    if setting.facts.secret:
        facts.append("secret")
    return f"\n## {setting.name}\n\n{' · '.join(facts)}\n\n{setting.facts.meaning}\n"


def _default(setting: Setting) -> str:
    if setting.name == "data_dir":
        return "the user's data folder"
    value = setting.default
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def missing_meanings() -> list[str]:
    """Settings whose meaning says too little to be of use."""
    declared = {name for name in Settings.__dataclass_fields__ if name not in ("origins", "warnings")}
    return sorted(
        (declared ^ SETTINGS.keys()) | {name for name, setting in SETTINGS.items() if len(setting.facts.meaning) < 20}
    )


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
