"""The fields of a thing in the audit log: what people put secrets into is never in clear, and a change still shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tickwise.domain.audit_masking import changed, shown

COMMANDS = [
    "mysql -h db -u root -pT0pS3cretX inventory < dump.sql",
    "mysqldump --password=T0pS3cretX --all-databases | gzip > /backup/all.gz",
    "PGPASSWORD=T0pS3cretX psql -h db -c 'VACUUM'",
    "export AWS_SECRET_ACCESS_KEY='T0pS3cretX'\naws s3 sync /data s3://bucket",
    "curl -u ada:T0pS3cretX https://example.com/hook",
    "curl -H 'Authorization: Bearer T0pS3cretX' https://example.com/hook",
    "curl -H 'X-Pin: T0pS3cretX' https://example.com/hook",
    "curl 'https://ada:T0pS3cretX@example.com/?page=1'",
    "curl -X POST https://hooks.slack.com/services/T000/B000/T0pS3cretX",
    "curl 'https://example.com/export?key=T0pS3cretX'",
    "psql postgresql://ada:T0pS3cretX@db/inventory -c 'SELECT 1'",
    "redis-cli -a T0pS3cretX FLUSHDB",
    "sshpass -p T0pS3cretX ssh ada@host uptime",
    "echo T0pS3cretX | sudo -S systemctl restart app",
    "openssl enc -aes-256-cbc -k T0pS3cretX -in a -out b",
    "docker login -u ada --password T0pS3cretX registry.example.com",
    "vault login T0pS3cretX && vault kv get app",
    "git clone https://oauth2:T0pS3cretX@git.example.com/app.git",
    "python - <<EOF\nimport app\napp.login('ada', 'T0pS3cretX')\nEOF",
    'sqlcmd -S db -U sa -P "T0pS3cretX" -Q "DBCC CHECKDB"',
    "7z a -pT0pS3cretX backup.7z /data",
    "/opt/app/run T0pS3cretX",
]
"""Lines as they stand in crontabs. No pattern finds the secret in all of them."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("form", ["command", "argv", "source"])
def test_no_part_of_a_command_is_in_an_entry(command: str, form: str) -> None:
    """Neither of a line for the shell, nor of a program's arguments, as a job and as a stored task have them."""
    task: dict[str, Any] = {"kind": "shell", form: command.split(" ") if form == "argv" else command}
    for fields in ({"task": task}, task, {"name": "n", "then": [{"task": task}]}):
        text = shown(fields)
        assert text is not None
        assert "T0pS3cretX" not in text
        assert '"kind":"shell"' in text


@pytest.mark.parametrize("form", ["command", "argv"])
def test_a_changed_command_shows_as_another_digest(form: str) -> None:
    """The digest of the whole, with its size: the same command has the same one."""
    one, same, other = (
        {"task": {"kind": "shell", form: value if form == "command" else value.split()}}
        for value in ("tar -c a", "tar -c a", "tar -c b")
    )
    before, after = changed(one, other)
    assert before is not None
    assert after is not None
    was, now = (json.loads(text)["task"][form] for text in (before, after))
    assert was.keys() == now.keys() == {"sha256", "bytes"}
    assert was["sha256"] != now["sha256"]
    assert shown(one) == shown(same)
    assert changed(one, same) == ("{}", "{}")


def test_fields_that_hold_secrets_are_masked_by_their_names() -> None:
    """Also inside of other fields; names of variables and headers stay."""
    fields = {
        "env": {"TOKEN": "T0pS3cretX"},
        "payload": {"pin": "T0pS3cretX"},
        "task": {"kind": "http", "url": "https://a:T0pS3cretX@b/?sig=T0pS3cretX", "headers": {"Key": "T0pS3cretX"}},
        "settings": [{"api_key": "T0pS3cretX", "host": "db"}],
        "queue": "default",
        "timeout_seconds": 3,
    }  # fmt: skip
    text = shown(fields)
    assert text is not None
    assert "T0pS3cretX" not in text
    read = json.loads(text)
    assert ({"TOKEN": "***"}, "default", 3) == (read["env"], read["queue"], read["timeout_seconds"])
    assert read["settings"] == [{"api_key": "***", "host": "db"}]
