"""The lifecycle rule of a bucket that `tickwise doctor` prints."""

from __future__ import annotations

import json

from tickwise.config import Settings
from tickwise.wiring.storage.lifecycle import LATER_DAYS, lifecycle_rule


def test_the_rule_comes_after_the_retention_and_spares_scripts() -> None:
    """Of logs and artefacts alone something expires, later than a scheduler deletes it; half days count as whole."""
    rule = json.loads(lifecycle_rule(Settings(retention_logs_days=7.5, retention_artefacts_days=30.0), "a/b"))
    expiring = {each["Filter"]["Prefix"]: each["Expiration"]["Days"] for each in rule["Rules"] if "Expiration" in each}
    assert {"a/b/logs/": 8 + LATER_DAYS, "a/b/artefacts/": 30 + LATER_DAYS} == expiring


def test_the_rule_of_a_whole_bucket_names_its_folders() -> None:
    """Without a prefix no rule begins with a slash, which no key does; uploads that were cut go from everywhere."""
    rule = json.loads(lifecycle_rule(Settings(), ""))
    assert ["", "logs/", "artefacts/"] == [each["Filter"]["Prefix"] for each in rule["Rules"]]
    assert {"DaysAfterInitiation": 1} == rule["Rules"][0]["AbortIncompleteMultipartUpload"]
