"""The jobs of a shop, as an operator would have them, and what happened to them in the last day: for screenshots.

The jobs and the latest runs are real. The day before is written into the store as executors would have left it, because
nobody waits a day for a picture.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import asyncpg

from tests.support.local_up import Local
from tickwise.domain.model import Trigger, time_id
from tickwise.sdk.client import Client

DAY: Final = 86_400.0
SEED: Final = 7
SUCCESS, FAILED = 5, 6
RUNNING_BEFORE: Final = 3


class Kind(NamedTuple):
    """A job, and how its runs go."""

    name: str
    fields: dict[str, Any]
    period: float
    """Seconds between two runs."""
    took: float
    """Seconds, about."""
    fails: float = 0.0
    reason: str = "exit_code"
    error: str = ""


def _shell(*lines: str) -> dict[str, Any]:
    return {"kind": "shell", "command": "\n".join(lines)}


RETRY: Final = {"base_seconds": 2}
ORDERS: Final = """\
import json, os, time
payload = json.loads(os.environ["TICKWISE_PAYLOAD"])
print("\\x1b[36mINFO\\x1b[0m  reading orders of", payload["region"])
for batch in range(1, 6):
    time.sleep(0.15)
    print(f"\\x1b[32m  ok\\x1b[0m  batch {batch} of 5: {batch * 37 + 11} orders, {batch * 2} with a voucher")
print("\\x1b[33mWARN\\x1b[0m  order 100482: the street is longer than the label, cut to 35 characters")
print("\\x1b[1mdone\\x1b[0m  612 orders to the warehouse")
"""
PAYMENT: Final = """\
import sys, time
print("\\x1b[36mINFO\\x1b[0m  settling payments with the bank")
time.sleep(0.3)
print("\\x1b[32m  ok\\x1b[0m  214 payments by card")
print("\\x1b[31mERROR\\x1b[0m bank gateway answered 503 for batch 7, after 3 tries")
sys.exit("bank gateway: 503 Service Unavailable (batch 7)")
"""
KINDS: Final = (
    Kind("orders to the warehouse", {
        "cron": "*/10 * * * *", "timezone": "Europe/Berlin", "task": {"kind": "python", "source": ORDERS},
        "payload": {"region": "north", "customer": {"tier": "gold"}, "batch": 250}, "key": "orders-export",
        "labels": {"team": "fulfilment", "tier": "1"}, "owner": "Ada", "max_retries": 2,
    }, 600.0, 41.0, 0.008, "timeout", "no answer of the warehouse within 120 s"),
    Kind("settle payments", {
        "every": "30m", "task": {"kind": "python", "source": PAYMENT, "env": {"BANK_TOKEN": "secret:bank-token"}},
        "labels": {"team": "finance", "tier": "1"},
        "owner": "Grace", "max_retries": 1, "payload": {"provider": "bank", "currency": "EUR"},
        "retry": RETRY,
    }, 1_800.0, 12.0, 0.06, "exit_code", "bank gateway: 503 Service Unavailable (batch 7)"),
    Kind("refresh prices", {
        "every": "5m", "task": _shell("echo 4,112 prices of the ERP", "sleep 2", "echo loaded"),
        "labels": {"team": "catalogue"}, "owner": "Lin", "payload": {"source": "erp", "full": False},
    }, 300.0, 6.4, 0.004, "exit_code", "load-prices: 3 prices below zero, nothing was loaded"),
    Kind("stock of all branches", {
        "every": "15m", "task": _shell("echo 64 branches", "sleep 45", "echo all branches answered"),
        "labels": {"team": "fulfilment"}, "owner": "Ada",
        "payload": {"branches": 64},
    }, 900.0, 95.0, 0.01, "timeout", "branch 17 did not answer within 300 s"),
    Kind("carts that were left", {
        "cron": "5 * * * *", "timezone": "Europe/Berlin", "task": _shell("echo 37 carts, 37 mails"),
        "labels": {"team": "marketing"}, "owner": "Mary", "payload": {"template": "you-forgot-something", "limit": 500},
    }, 3_600.0, 18.0),
    Kind("close the books", {
        "cron": "30 2 * * *", "timezone": "Europe/Berlin", "task": _shell("echo closing yesterday", "sleep 5"),
        "labels": {"team": "finance", "tier": "1"}, "owner": "Grace", "key": "close-books", "max_retries": 3,
    }, DAY, 312.0),
    Kind("backup of the database", {
        "cron": "0 3 * * *", "timezone": "Europe/Berlin", "task": _shell("echo backup of 41 GB"),
        "labels": {"team": "platform", "tier": "1"}, "owner": "Dennis",
    }, DAY, 1_480.0),
    Kind("sitemap", {
        "every": "6h", "task": _shell("echo 18,402 addresses"), "labels": {"team": "catalogue"}, "owner": "Lin",
    }, 21_600.0, 33.0),
    Kind("thumbnails of new pictures", {
        "every": "2m", "task": _shell("echo 14 pictures", "sleep 3"), "labels": {"team": "catalogue"}, "owner": "Lin",
        "payload": {"sizes": [120, 480, 1200]},
    }, 120.0, 3.1, 0.002, "memory_limit", "killed: it needed more than 512 MiB"),
    Kind("newsletter", {
        "cron": "0 9 * * 2", "timezone": "Europe/Berlin", "task": _shell("echo 12,004 letters"),
        "labels": {"team": "marketing"}, "owner": "Mary",
    }, 7 * DAY, 900.0),
    Kind("returns to the carrier", {
        "cron": "20 */2 * * *", "timezone": "Europe/Berlin", "task": _shell("echo 22 parcels"),
        "labels": {"team": "fulfilment"}, "owner": "Ada", "payload": {"carrier": "dhl", "pickup": "14:00"},
    }, 7_200.0, 22.0, 0.04, "http_status", "the carrier answered 422: parcel 4471-2 has no weight"),
    Kind("fraud scores", {
        "every": "1h", "task": _shell("echo 912 orders scored"), "labels": {"team": "finance"}, "owner": "Grace",
        "payload": {"model": 12},
    }, 3_600.0, 140.0),
)  # fmt: skip
PEOPLE: Final = (
    ("ada", "operator"),
    ("grace", "operator"),
    ("lin", "operator"),
    ("mary", "viewer"),
    ("dennis", "admin"),
)


class Shop:
    """A Tickwise with the jobs of the shop."""

    def __init__(self, up: Local) -> None:
        self.client = Client(up.url, up.key)
        self.up = up
        for name in ("bank-token", "carrier-password"):
            self.client.request("PUT", f"/secrets/{name}", body={"value": "a value that no page shows"})
        self.jobs = {kind.name: self.client.job_create({"name": kind.name, **kind.fields})["job_id"] for kind in KINDS}
        for name, role in PEOPLE:
            body = {
                "name": name,
                "password": "four quiet herons wade",
                "roles": [{"role": role, "namespace": "default"}],
            }
            self.client.request("POST", "/users", body=body)
        self.client.key_make({"name": "deployment", "scopes": ["jobs:write", "jobs:read"]})
        self.client.key_make({"name": "monitoring", "scopes": ["runs:read"]})

    def set_up(self, listening: int) -> None:
        """The calendars, windows, namespaces and objectives of the shop, and how people are told of failures.
        `listening`: a port of this machine that takes what channels send."""

        def ask(method: str, path: str, body: Any) -> Any:
            return self.client.request(method, path, body=body).body

        holidays = ["2026-12-25", "2026-12-26", {"from": "2026-12-31", "to": "2027-01-01"}, "2027-03-26", "2027-03-29"]
        ask("PUT", "/calendars/public-holidays", {"timezone": "Europe/Berlin", "dates": holidays})
        inventory = {"recurring": [{"cron": "0 22 * * 6", "duration": "4h"}], "timezone": "Europe/Berlin"}
        window = {"when": inventory, "labels": {"team": "fulfilment"}, "action": "defer", "reason": "stocktaking"}
        ask("PUT", "/windows/stocktaking", window)
        ask("POST", "/namespaces", {"name": "marketplace", "display_name": "Marketplace"})
        ask("PUT", "/namespaces/default/quotas", {"jobs": 200, "runs_per_day": 20_000, "requests_per_second": 50})
        for name, within, ratio in (("orders to the warehouse", 5, 0.999), ("refresh prices", 30, 0.99)):
            changed = {"objective_start_seconds": within, "objective_ratio": ratio}
            self.client.request("PATCH", f"/jobs/{self.jobs[name]}", body=changed)
        for name in ("on-call", "finance-desk"):
            url = f"http://127.0.0.1:{listening}/{name}"
            ask("POST", "/channels", {"name": name, "kind": "webhook", "url": url, "allow_private": True})
        ask("POST", "/notification-rules", {
            "name": "money does not move", "on": ["failure", "recovery"], "channels": ["finance-desk"],
            "labels": {"team": "finance"}, "severity": "critical",
        })  # fmt: skip
        ask("POST", "/notification-rules", {
            "name": "the warehouse waits", "on": ["failure", "recovery", "did_not_run"], "channels": ["on-call"],
            "labels": {"team": "fulfilment"}, "in_a_row": 2,
            "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
        })  # fmt: skip
        for list_name, name, query in (("runs", "failed of finance", "status=FAILED&label=team%3Dfinance"),
                                       ("jobs", "first tier", "label=tier%3D1")):  # fmt: skip
            ask("PUT", "/saved-views", {"list": list_name, "name": name, "query": query, "shared": True})

    def alert(self) -> str:
        """The alert about the failed payments, once people were told of it."""
        pause = threading.Event()
        for _ in range(600):
            found = self.client.request("GET", "/alerts").body
            if found and self.client.request("GET", "/notices").body:
                return str(found[0]["alert_id"])
            pause.wait(0.1)
        raise AssertionError("nobody was told of the failed payments")

    def run(self, name: str, *, states: tuple[str, ...] = ("SUCCESS", "FAILED")) -> str:
        """A real run of a job, once it is in one of these states."""
        run_id = str(self.client.request("POST", f"/jobs/{self.jobs[name]}/runNow", body={}).body["run_id"])
        pause = threading.Event()
        for _ in range(600):
            if self.client.run_get(run_id)["status"] in states:
                return run_id
            pause.wait(0.1)
        raise AssertionError(f"the run {run_id} of {name} did not end")

    async def remember_a_day(self) -> None:
        """Write the last day into the store, with its counts by the hour."""
        facts = json.loads((self.up.data_dir / "client.json").read_text(encoding="utf-8"))
        connection = await asyncpg.connect(facts["database_url"])
        rows = list(_day(self.jobs, time.time()))
        try:
            # Counted below: the trigger would count all of it in this hour.
            await connection.execute("ALTER TABLE tickwise.history DISABLE TRIGGER history_tally")
            await connection.executemany(_HISTORY, rows)
            await connection.execute("ALTER TABLE tickwise.history ENABLE TRIGGER history_tally")
            await connection.execute(_TALLIES)
            await connection.execute(_CREATED)
            await connection.execute("ANALYZE tickwise.history")
        finally:
            await connection.close()


def _day(jobs: dict[str, str], now: float) -> Iterator[tuple[Any, ...]]:
    dice = random.Random(SEED)
    for kind in KINDS:
        due = now - (now % kind.period) - DAY * (1 if kind.period < DAY else 6)
        while due < now - 60.0:
            night = not 5.0 < due % DAY / 3_600.0 < 21.0
            if night and kind.period < 400.0 and dice.random() < 0.7:
                due += kind.period
                continue
            # A bad hour of the bank, as shops have them.
            bad = kind.name == "settle payments" and 14.0 < (now - due) / 3_600.0 < 17.0
            failed = dice.random() < (0.8 if bad else kind.fails)
            took = kind.took * dice.lognormvariate(0.0, 0.25)
            late = 0.002 + dice.expovariate(200.0)
            result = json.dumps({"rows": dice.randrange(40, 900)}) if not failed else None
            yield (
                time_id(int(due * 1000), dice.randbytes(10)), jobs[kind.name], due, due - 5.0, due - 1.0, due + late,
                due + late + took, FAILED if failed else SUCCESS, kind.reason if failed else None,
                kind.error if failed else None, result, int(Trigger.SCHEDULE),
            )  # fmt: skip
            due += kind.period


_HISTORY: Final = f"""
INSERT INTO tickwise.history (run_id, job_id, due, queued, claimed, started, ended, state, before, attempt, failures,
  crashes, trigger, namespace, reason, error, result, executor, token)
SELECT $1, $2, to_timestamp($3), to_timestamp($4), to_timestamp($5), to_timestamp($6), to_timestamp($7), $8::int,
  {RUNNING_BEFORE}, 1, CASE $8::int WHEN {FAILED} THEN 1 ELSE 0 END, 0, $12, 'default', $9, $10, $11,
  (SELECT max(executor) FROM tickwise.executors), 1
"""
_TALLIES: Final = """
INSERT INTO tickwise.tallies_new (hour, runs, state, namespace)
SELECT date_bin('1 hour', ended, to_timestamp(0)), count(*), state, namespace FROM tickwise.history
WHERE token = 1 GROUP BY 1, 3, 4
"""
_CREATED: Final = (
    "UPDATE tickwise.jobs SET created = created - interval '40 days', updated = updated - interval '9 days',"
    " task_changed = task_changed - interval '9 days'"
)
