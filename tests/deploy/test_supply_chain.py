"""The supply chain: bills of materials, templates for pipelines, and no secret in a file that is delivered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from tests.deploy import sbom
from tests.deploy.files import DEPLOY, ROOT, VALUES, load
from tests.style.tree import committed_files
from tickwise.adapters.clock import SystemClock
from tickwise.config import SETTINGS
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.secrets import check_strength
from tickwise.domain.errors import Misconfigured

CI: Final = DEPLOY / "ci"
NAMES: Final = r"(?:password|passwd|secret|token|api_key|access_key|bootstrap_key|requests_keys|private_key)"
ASSIGNED: Final = re.compile(rf"\b[\w.-]*{NAMES}\w*[\"']?\s*[:=]=?\s*(.*)$", re.IGNORECASE)
IN_ADDRESS: Final = re.compile(r"\b[a-z][a-z0-9+]*://[^\s:/@\"']*:([^\s@\"'/]+)@")
HARMLESS: Final = re.compile(
    r"^$|^[\"']{2}|^[\[{(.]|^[\"']?[$<%&*…]|^(?:true|false|none|null)\b"  # empty, or made elsewhere
    r"|^!override$"  # the tag of Compose before a list
    r"|^[\"']?(?:/|file:|secrets/|\.\./)"  # a place
    r"|^[\"']?(?:PASSWORD|KEY|TOKEN|password|…)[\"']?(?:$|[\s,)`;.@])",  # a word that says what belongs there
)
DELIVERED: Final = ("deploy/", "docs/", "examples/", "README.md", "SECURITY.md", "Makefile")


# ------------------------------------------------------------------ bills of materials


def schema() -> jsonschema_rs.Validator:
    """CycloneDX 1.6, as its library has it; what it refers to lies beside it."""
    folder = files("cyclonedx.schema") / "_res"

    def beside(uri: str) -> Any:
        stem = Path(uri).name.removesuffix(".schema.json").removesuffix(".SNAPSHOT")
        return json.loads((folder / f"{stem}.SNAPSHOT.schema.json").read_text())

    text = json.loads((folder / "bom-1.6.SNAPSHOT.schema.json").read_text())
    return jsonschema_rs.validator_for(text, retriever=beside)


@pytest.mark.parametrize("name", sbom.BILLS)
def test_the_bill_of_materials_keeps_the_schema_and_has_each_locked_package(name: str) -> None:
    """With its version and the digests of its files; made twice, it is the same."""
    text = sbom.bill(name)
    assert text == sbom.bill(name)
    bill = json.loads(text)
    assert [] == [error.message for error in schema().iter_errors(bill)]
    lock = (ROOT / "requirements" / f"{sbom.BILLS[name]}.txt").read_text()
    locked = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    listed = {each["name"]: each for each in bill["components"] if each["type"] == "library"}
    assert locked | {"tickwise-sdk"} == listed.keys()  # of this repository, so it is in no lock file
    assert len(re.findall(r"--hash=sha256:", lock)) == sum(len(each.get("hashes", ())) for each in listed.values())
    (whole,) = [each["dependsOn"] for each in bill["dependencies"] if each["ref"] == name]
    assert len(bill["components"]) == len(whole)


def test_a_bill_that_breaks_the_schema_is_noticed() -> None:
    """The check that is above can fail."""
    bill = json.loads(sbom.bill("tickwise"))
    bill["components"][0]["type"] = "nonsense"
    assert [*schema().iter_errors(bill)]


# ------------------------------------------------------------------ pipelines


def commands() -> dict[str, list[str]]:
    """What each template runs."""
    github, gitlab = (yaml.safe_load((CI / f"{name}.yaml").read_text()) for name in ("github", "gitlab"))
    steps = [step for job in github["jobs"].values() for step in job["steps"]]
    assert [] == [step for step in steps if "uses" in step], "an action that is not pinned"
    jobs = [job for job in gitlab.values() if "script" in job]
    return {"github": [step["run"] for step in steps], "gitlab": [line for job in jobs for line in job["script"]]}


@pytest.mark.parametrize("template", ["github", "gitlab"])
def test_the_templates_audit_scan_and_list(template: str) -> None:
    """By targets of the Makefile, by a scanner of one version, and by a configuration that are there."""
    text = "\n".join(commands()[template])
    targets = set(re.findall(r"\bmake ([\w-]+)", text))
    assert {"audit-deps", "sbom"} == targets
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}: ", makefile, re.MULTILINE) for target in targets)
    assert re.search(r"gitleaks/v8@v\d+\.\d+\.\d+ git --config (\S+) ", text)
    assert (CI / "gitleaks.toml").is_file()


def rules() -> dict[str, re.Pattern[str]]:
    """The rules of the secret scanner that are ours."""
    import tomllib

    return {
        each["id"]: re.compile(each["regex"]) for each in tomllib.loads((CI / "gitleaks.toml").read_text())["rules"]
    }


def test_the_scanner_knows_our_keys() -> None:
    """As the product makes them, wherever they stand; and secret settings with a value."""
    key, setting = rules()["tickwise-key"], rules()["tickwise-setting"]
    for _ in range(50):
        made = new_secret(SystemClock())
        if made.endswith("-"):
            continue  # no word ends there; the setting's rule finds it where it is given to a name
        assert key.search(f"Authorization: Bearer {made}\n"), made
        assert setting.search(f'export TICKWISE_API_KEY="{made}"')
    assert setting.search('bootstrap_key = "3c1f0b9a7d5e48261f3b5a7c9e0d2468"')
    assert not key.search("tw_short")
    assert not setting.search("TICKWISE_BOOTSTRAP_KEY=$KEY")


# ------------------------------------------------------------------ no secret is delivered


def delivered() -> Iterator[tuple[str, int, str]]:
    """Each line of what an operator gets."""
    for place in committed_files():
        if place.startswith(DELIVERED) and not place.endswith((".png", ".webp", ".json")):
            for number, line in enumerate((ROOT / place).read_text(encoding="utf-8").splitlines(), 1):
                yield place, number, line


def test_no_file_that_is_delivered_holds_a_secret() -> None:
    """No password, key or token with a value: not in compose file, chart, units, pages, examples, nor in an address."""
    lines = list(delivered())
    assert len(lines) > 1_000
    assert [] == [f"{place}:{number}: {line.strip()}" for place, number, line in lines if holds_secret(place, line)]


def holds_secret(place: str, line: str) -> bool:
    """Whether a line gives a value to a name of a secret, has a password in an address, or a key of ours. Pages speak
    of secrets with colons, so that names count in files for machines alone."""
    said = ASSIGNED.search(line) if place.startswith(("deploy/", "examples/")) else None
    in_address = IN_ADDRESS.search(line)
    given = [said[1].strip()] if said else []
    given += [in_address[1]] if in_address else []
    return not all(map(HARMLESS.search, given)) or any(rule.search(line) for rule in rules().values())


@pytest.mark.parametrize(
    "line",
    [
        "POSTGRES_PASSWORD: hunter2",
        "password = 'hunter2'",
        'bootstrap_key = "admin"',
        "  api_key: a1b2c3",
        "database_url: postgresql://tickwise:tickwise@db/tickwise",
        "Environment=TICKWISE_BOOTSTRAP_KEY=changeme",
        "redis://:hunter2@redis:6379",
    ],
)
def test_a_secret_that_is_delivered_is_noticed(line: str) -> None:
    """The check that is above can fail."""
    assert holds_secret("deploy/compose/compose.yaml", line)


def test_no_setting_has_a_secret_by_default() -> None:
    """Nor do the chart's values."""
    secret = [setting for setting in SETTINGS.values() if setting.facts.secret]
    assert {"bootstrap_key", "database_url", "requests_keys"} <= {setting.name for setting in secret}
    assert [] == [setting.name for setting in secret if setting.default]
    values = load(VALUES)
    assert ({}, {}, "", "", "") == (
        values["secrets"], values["secretsOf"], values["existingSecret"], values["tokenKey"]["secret"],
        values["tls"]["secret"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "weak", ["changeme" * 4, "password" * 4, "a" * 40, "0123456789" * 4, "secret-secret-secret-secret-secret"]
)
def test_a_bootstrap_key_that_can_be_guessed_is_refused(weak: str) -> None:
    """Also one that is long enough."""
    with pytest.raises(Misconfigured):
        check_strength(weak)
