"""Every setting once: its name, default, unit, limits and meaning; and the one place that reads them.

    default  <  service.toml  <  secrets.toml  <  TICKWISE_… in the environment  <  option of the command line

The two files are in the folder that TICKWISE_CONFIG_LOCATION names, outside the program, so that one image serves
everywhere. Each field of `Settings` below is one setting: `lease_seconds` is a key of the files and
TICKWISE_LEASE_SECONDS in the environment. An empty variable counts as not set. A list is written `["a", "b"]` in a
file and `a,b` in the environment.

Invariant: each fault of the settings is reported at the start, as `Misconfigured`, with the place, what was found there
and what is allowed. Nothing that an operator wrote is ignored in silence. No value of a secret setting is ever shown.

Only `wiring` and the command line import this module. It is on the path of `tickwise --help`, so it imports little.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tickwise.config.described import Described, Setting, allowed, shown_value
from tickwise.config.facts import check_value, declared_field
from tickwise.config.files import PREFIX, SettingSource, nearest, setting_files, values_of_file
from tickwise.config.groups import KeptSettings, SignInSettings, TaskSettings
from tickwise.config.oidc import check_oidc
from tickwise.config.values import KINDS
from tickwise.domain.errors import Misconfigured
from tickwise.domain.rules.capacities import read_resources, read_size

# Names that programs around us read from the same environment: the context of a task, the client's address
# and key, its tracebacks, and the tests' own. They are never settings, so no setting may have one of these names.
RESERVED: Final = frozenset(
    PREFIX + name
    for name in (
        "JOB_ID", "RUN_ID", "ATTEMPT", "NOMINAL_TIME", "DUE_TIME", "IDEMPOTENCY_KEY", "FENCING_TOKEN", "NAMESPACE",
        "PAYLOAD", "PAYLOAD_FILE", "RESULT_FILE", "API_KEY", "URL", "CA_FILE", "DEBUG", "CONFIG_LOCATION",
        "SHARED_DATA", "IDENTITY_TOKEN_FILE", "FEDERATED_TOKEN_FILE", "FEDERATED_AUDIENCE", "FEDERATION",
    )
)  # fmt: skip
RESERVED_PREFIXES: Final = (PREFIX + "TEST_", PREFIX + "BENCH_")
# The variables that Kubernetes sets in every container for a service with the name tickwise or tickwise-….
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP)(_\w+)?$|^tcp://")


def _setting(default: Any, meaning: str, **facts: Any) -> Any:
    """A field of `Settings`. Any, because the field's own annotation says what it holds."""
    return declared_field(default, meaning, **facts)


def default_data_dir() -> Path:
    """The platform's folder for the data of a user; for root /var/lib/tickwise, because PostgreSQL must run as another
    user, and none can go below /root."""
    import os

    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/tickwise")
    import platformdirs

    return platformdirs.user_data_path("tickwise", appauthor=False)


@dataclass(frozen=True, kw_only=True)
class Settings(TaskSettings, KeptSettings, SignInSettings):
    """The settings in force. Made by `load`; in tests also by hand, `Settings(lease_seconds=1)`."""

    # ------------------------------------------------------------------ where things are
    data_dir: Path = _setting(
        default_data_dir,
        "Folder of `tickwise up`: its database, its blobs and how the command line finds it. "
        "The default is the platform's folder for the data of a user, for root `/var/lib/tickwise`.",
    )
    database_url: str | None = _setting(
        None,
        "The store: `postgresql://user:password@host:port/name` (15 or newer), `file:///folder` for a log in a folder "
        "that one `tickwise up` has (`docs/how-to/file-store.md`), or `memory://` for a trial that forgets everything. "
        "Several PostgreSQL addresses, separated by spaces, are one installation whose namespaces are spread over them "
        "(`docs/how-to/many-databases.md`). `cassandra://host[,host]:port/keyspace`, served by `tickwise keeper`, is "
        "for roles that run apart (`docs/how-to/cassandra.md`). Unset: `tickwise up` runs a PostgreSQL of its own in "
        "`data_dir`; other roles refuse to start.",
        schemes=("postgresql", "postgres", "file", "memory", "cassandra"),
        option="--database",
        secret=True,
    )
    blobs_url: str | None = _setting(
        None,
        "The storage of scripts and outputs: `file:///folder`, shared by all roles, or a bucket, "
        "`s3://bucket/prefix?endpoint=https://host:port&region=…` (`docs/how-to/output-in-s3.md` has every option). "
        "Unset: the folder `blobs` in `data_dir`.",
        schemes=("file", "memory", "s3"),
    )
    database_connections: int = _setting(
        5,
        "The most connections to the database that a process keeps in its shared pool. Up to eleven of the hot path "
        "and two for signals come beside them (`docs/how-to/database-connections.md`).",
        least=2,
        most=100,
    )
    search_database_url: str | None = _setting(
        None,
        "A replica of `database_url` for the API's searches and counts, which may lag behind; of several databases one "
        "of each, separated by spaces, that of the first one first. Nothing is decided by it. Unset: `database_url`.",
        schemes=("postgresql", "postgres"),
        secret=True,
    )
    broker_url: str | None = _setting(
        None,
        "The broker of roles that run apart: `kafka://host:port[,host:port]?prefix=tickwise` "
        "(`docs/how-to/scale-out.md` has every option), or `sqs://REGION/PREFIX` (`docs/how-to/sqs.md`). Unset: the "
        "store is the queue.",
        schemes=("kafka", "sqs"),
        secret=True,
    )
    signals_url: str | None = _setting(
        None,
        "The address of wake-ups, cancels and state shared between processes: `redis://host:port/0`; or a PostgreSQL "
        "address, for when `database_url` leads through a pooler that cannot LISTEN. Unset: `database_url`.",
        schemes=("postgresql", "postgres", "redis", "rediss"),
        secret=True,
    )
    host: str = _setting(
        "127.0.0.1", "The address that the API listens on. Loopback, because nothing should be open by accident."
    )
    port: int = _setting(8470, "The port of the API; 0 takes a free one.", least=0, most=65_535)
    health_port: int | None = _setting(
        None,
        "Port of `/livez`, `/readyz`, `/healthz` and `/metrics` for monitoring, on `host`, without a key. "
        "Unset: none is opened, so that any number of roles run on one host. (The API has them on its own port, too, "
        "`/metrics` with a key.)",
        least=0,
        most=65_535,
    )
    tls_cert_file: Path | None = _setting(
        None,
        "The certificate of the API's port, PEM, with those of its issuers behind it. Read again within seconds when "
        "it or its key is replaced. Unset: the port speaks plain HTTP (`docs/how-to/tls.md`).",
    )
    tls_key_file: Path | None = _setting(
        None,
        "The private key of `tls_cert_file`, PEM without a password. Only its owner may read it, or, of a file of "
        "root, its group.",
    )
    tls_version_least: str = _setting("1.2", "The oldest version of TLS that is accepted.", choices=("1.2", "1.3"))
    tls_ports: tuple[str, ...] = _setting(
        ("api",),
        "The ports that speak TLS once there is a certificate: `api`, `health`. Nothing secret is on the health port, "
        "and probes are simpler without.",
        choices=("api", "health"),
    )
    tls_ends_at: str = _setting(
        "here",
        "Where TLS ends. `here`: in this process; an API without a certificate warns where other machines can reach "
        "it. `proxy`: at a proxy in front, and the way from there is private.",
        choices=("here", "proxy"),
    )
    api_serve: tuple[str, ...] = _setting(
        ("jobs", "search", "users", "auth", "web"),
        "The parts that an API process serves: `jobs` (all changes of jobs, runs and rules), `search` (all that only "
        "reads them), `users` (people and namespaces), `auth` (tokens), "
        "`web` (the pages, which need none of the others). Health and metrics are always there.",
        option="--serve",
        choices=("jobs", "search", "users", "auth", "web"),
    )
    recorder_serve: tuple[str, ...] = _setting(
        ("requests", "results"),
        "The broker's messages that a recorder applies: `requests` (buffered submits, edits and cancels), `results` "
        "(ends of runs). A recorder that serves both handles them independently.",
        option="--serve",
        choices=("requests", "results"),
    )
    bootstrap_key: str | None = _setting(
        None,
        "An admin key, accepted at every start of `up` or `api` that is given it; it permanently "
        "revokes the one that was set before. Any text of 32 characters or more that cannot be guessed: "
        "`openssl rand -hex 32`.",
        shortest=32,
        secret=True,
    )

    browser_idle_seconds: float = _setting(
        12 * 3_600.0,
        "A session of the pages that was not used for this time ends. A page that renews itself does not use it.",
        least=60.0,
        most=30 * 86_400.0,
    )
    browser_session_seconds: float = _setting(
        7 * 86_400.0,
        "A session of the pages ends after this time, used or not: then the password is asked for again.",
        least=300.0,
        most=90 * 86_400.0,
    )
    token_key_file: Path | None = _setting(
        None,
        "The file with the private key (Ed25519, PEM) that access tokens are signed with, the same for all processes "
        "that serve `auth`: `openssl genpkey -algorithm ed25519`. Only its owner may read it. `up` makes one itself. "
        "Schedulers sign the links of notices with it, and publish its public half.",
    )
    registration: str = _setting(
        "off",
        "Whether people register themselves: `off` (an administrator adds or invites them) or `open` (anybody who can "
        "reach the API).",
        choices=("off", "open"),
    )
    registration_role: str = _setting(
        "viewer",
        "The role in the namespace `default` of people who registered themselves.",
        choices=("viewer", "operator", "developer"),
    )

    # ------------------------------------------------------------------ what an executor takes and runs
    queues: tuple[str, ...] = _setting(("default",), "The queues that an executor serves.")
    labels: tuple[str, ...] = _setting(
        (), "The labels that this executor offers to jobs that require them, such as `gpu`."
    )
    resources: tuple[str, ...] = _setting(
        (),
        "The counted capacities of this executor, such as `gpu=2,license=1`: a job with `resources` runs only where so "
        "much is free, and holds it while it runs.",
        check=read_resources,
        form="a list of NAME=N such as gpu=2,license=1, each N a whole number from 1 to 1000000",
    )
    memory: str | None = _setting(
        None,
        "The memory of an executor that runs with `limits.memory_bytes` reserve while they run, such as `8GB`. Unset: "
        "the limit of its control group, or the memory of its machine. A job that needs more never runs there.",
        check=read_size,
        form="a size such as 8GB or 512MB",
    )
    executor_namespaces: tuple[str, ...] = _setting(
        (),
        "The namespaces whose runs an executor claims; none: those of each one. The store gives it no others.",
    )
    slots: int = _setting(
        16,
        "Attempts with a process of their own that run at once on an executor. They wait more than they compute.",
        least=1,
        most=4_096,
    )
    function_workers: int = _setting(
        1,
        "Warm processes for `function` tasks; one runs about 37k no-op tasks a second, two 51k on two cores.",
        least=0,
        most=256,
    )
    function_modules: tuple[str, ...] = _setting(
        (), "Modules that the function workers import, so that the functions in them are registered."
    )
    pass_environment: tuple[str, ...] = _setting(
        (),
        "Names of variables of the executor's own environment that tasks may see. Everything else is kept from them: "
        "it may hold keys.",
    )
    http_allow: tuple[str, ...] = _setting(
        (),
        "The targets that `http` tasks, and names in `allow_network`, may reach beside the public internet: networks "
        "(`10.0.0.0/8`), addresses (`127.0.0.1`), hosts (`localhost`) and either of the last two with a port "
        "(`localhost:8080`). Unset: nothing on loopback, in private networks or at a cloud's metadata "
        "(`docs/how-to/http-tasks.md`, `docs/how-to/network-policy.md`).",
    )
    http_per_host: int | None = _setting(
        None,
        "The `http` tasks of one namespace that an executor sends to one host at once. The others wait, without a slot "
        "and before their timeout begins. Unset: as many as there are slots. Over all executors: a job's "
        "`concurrency`.",
        least=1,
    )
    http_tls_folder: Path | None = _setting(
        None,
        "A folder with certificates and keys as PEM, in one folder for each namespace (`FOLDER/NAMESPACE/client.pem`): "
        "its `http` tasks may name them (`tls`). Unset: tasks bring their own.",
    )
    run_tasks_as: str | None = _setting(
        None,
        "The user that `python` and `shell` tasks run as, by name or number; only an executor that is root can choose. "
        "Unset: of an executor that is root, each namespace gets a user of its own that owns nothing else; of any "
        "other, its own user. `root`: tasks own the machine, and all that Tickwise keeps on it.",
    )
    run_as_users: tuple[str, ...] = _setting(
        (),
        "The system users that jobs may name (`run_as`): `backup` for the jobs of each namespace, or "
        "`NAMESPACE=user|user`, which binds a namespace to its users and keeps them from all others. An executor that "
        "root starts offers those that have an account (`run_as:NAME`), any other executor its own user alone; `root` "
        "only if it is named. APIs with this setting refuse other users when a job is created "
        "(`docs/explanation/what-a-task-can-reach.md`).",
    )
    task_disk_bytes: int | None = _setting(
        None,
        "The most that a `python` or `shell` task may keep in its work folder and its temporary files at once, if its "
        "job says nothing (`limits.disk_bytes`). No file that it writes elsewhere may be larger, either. Unset: no "
        "limit.",
        least=1 << 20,
    )
    isolation: str = _setting(
        "auto",
        "Whether an executor gives `python` and `shell` tasks sandboxes. `auto`: if this host can, which `tickwise "
        "doctor` tells; `process`: no; `sandbox`: yes, and where the host cannot, the executor refuses to start. Of an "
        "API, `process` lets new jobs that say no `isolation` be plain processes.",
        choices=("auto", "process", "sandbox"),
    )
    environments_dir: Path | None = _setting(
        None,
        "The folder of the environments that scripts declare (`docs/how-to/scripts-with-dependencies.md`); executors "
        "of one machine share it. Unset: `environments` in `data_dir`. Where tasks run as users that cannot reach it, "
        "a folder below `/var/lib/tickwise`.",
    )
    claim_batch: int = _setting(
        500,
        "Runs claimed in one statement. Measured: 1 at a time 1.5k runs/s, 100 54k, 500 74k, 2000 72k.",
        least=1,
        most=5_000,
    )
    claim_ahead_seconds: float = _setting(
        3.0,
        "The time before its due time at which an executor claims a run and holds it in memory, so that it starts "
        "to the millisecond. At most `horizon_seconds`, since nothing further ahead is a run yet; a shorter "
        "horizon shortens the default too.",
        least=0,
        most=30,
    )
    held_limit: int = _setting(
        60_000,
        "Most runs that an executor holds until they are due, at most one `claim_ahead_seconds` ahead: enough for a "
        "burst of 60,000 at one instant. If it dies, its held runs wait for its lease to end.",
        least=1,
        most=200_000,
    )
    finish_batch: int = _setting(
        2_000,
        "Most results written in one statement. Measured while much is to do: 500 at a time 27k runs/s, 1000 37k, "
        "2000 39k: each write waits for the disk once.",
        least=1,
        most=5_000,
    )
    finish_flush_seconds: float = _setting(
        0.01, "The longest that a result waits for others to share its write.", least=0, most=1
    )
    drain_seconds: float = _setting(
        30.0,
        "After SIGTERM an executor waits this long for its running attempts, then stops them. The usual grace of "
        "container platforms.",
        least=0,
        most=86_400,
    )
    kill_grace_seconds: float = _setting(
        5.0, "Between TERM and KILL for a task that is cancelled or over its time.", least=0, most=600
    )

    # ------------------------------------------------------------------ time
    heartbeat_seconds: float = _setting(3.0, "The period at which an executor renews its lease.", least=0.1, most=60)
    lease_seconds: float = _setting(
        10.0,
        "The time after its last heartbeat that an executor keeps its runs. Three heartbeats, so that one late beat "
        "loses nothing, and a dead executor's runs go on within 15 s. At least twice `heartbeat_seconds`.",
        least=0.5,
        most=600,
    )
    horizon_seconds: float = _setting(
        3.0,
        "The time before their due time at which the scheduler makes runs, which hides the store's latency. Enough to "
        "prepare 60,000 runs of one instant on two cores.",
        least=0.1,
        most=60,
    )
    poll_seconds: float = _setting(
        0.5,
        "Longest sleep of a role that was not woken: wake-ups may be lost, and then cost this much.",
        least=0.005,
        most=60,
    )
    fires_per_minute_most: int = _setting(
        0,
        "Most runs that the schedules of one namespace may make in a minute; 0 is no limit. Over it, the jobs that "
        "fire most often are paused until the others fit. (Each job has a limit of its own, `fuse_per_minute`.)",
        least=0,
        most=1_000_000_000,
    )

    invariants_seconds: float = _setting(
        60.0,
        "The least time between two checks of the store's invariants by a scheduler; the metric "
        "`tickwise_invariant_violations` shows the findings. The checks take at most a hundredth of the time, for a "
        "store of any size.",
        least=1,
        most=86_400,
    )

    heartbeat_url: str | None = _setting(
        None,
        "An address that a scheduler asks (GET) as long as all is well: the store answers, timers fire in time and the "
        "last check of the invariants is clean. A service that gets no such request for long alarms people "
        "(`docs/how-to/monitoring.md`). Schedulers share one heartbeat. Unset: none is sent.",
        schemes=("https", "http"),
        secret=True,
        token_in_path=True,
    )
    heartbeat_fail_url: str | None = _setting(
        None,
        "An address that is told (POST, the reason as text) while all is not well, such as `/fail` of healthchecks.io. "
        "Needs `heartbeat_url`. Unset: schedulers are silent then, which the receiver notices later.",
        schemes=("https", "http"),
        secret=True,
        token_in_path=True,
    )
    heartbeat_url_seconds: float = _setting(
        60.0,
        "The time between two heartbeats to `heartbeat_url`. Let the receiver wait for twice as long before it alarms. "
        "(`heartbeat_seconds` is that of executors.)",
        least=1,
        most=86_400,
    )

    # ------------------------------------------------------------------ with a broker
    ingest: str = _setting(
        "direct",
        "`direct`: a job is answered once the store has it. `buffered`: submits, edits and cancels are answered with "
        "202 once the broker has them, also while the store is away; recorders apply them. Needs `broker_url`.",
        choices=("direct", "buffered"),
    )
    requests_keys: tuple[str, ...] = _setting(
        (),
        "Secrets by which recorders know that an API took a buffered request in: the first signs, each is accepted. "
        'For APIs with `ingest = "buffered"` and for recorders. Each has 32 characters or more, as of '
        "`openssl rand -hex 32`. Two at once are for changing them (`docs/how-to/scale-out.md`). Unset: a client "
        "that can write the topic of requests can act as any key.",
        shortest=32,
        secret=True,
    )
    unsigned_messages: str = _setting(
        "older",
        "The messages that a recorder accepts without a signature. `older`: results of executors of versions "
        "that sign none; "
        "requests only where `requests_keys` is not set. `refused`: nothing. `accepted`: requests too, while "
        "`requests_keys` is being introduced.",
        choices=("older", "refused", "accepted"),
    )
    results: str = _setting(
        "direct",
        "The transport of results. `direct`: executors write them to the store. `broker`: they go through the "
        "broker, and recorders apply them, which takes connections and work off executors. Needs `broker_url`.",
        choices=("direct", "broker"),
    )

    # ------------------------------------------------------------------ what the API accepts
    requests_per_second_most: float = _setting(
        0.0,
        "Most requests of one key in a second, of all API processes together; 0 is no limit. Twice as many may come at "
        "once. They are counted in Redis where `signals_url` names one, else in the database.",
        least=0,
        most=1_000_000,
    )
    address_requests_per_second_most: float = _setting(
        0.0,
        "Most requests of one client address in a second (of IPv6: of the 64 bits that a customer has), of all API "
        "processes together; 0 is no limit. Twice as many may come at once. They are counted before a key is looked "
        "up; `/livez` and `/readyz` are not. Behind a proxy set `trusted_proxies` first, or all clients are one.",
        least=0,
        most=1_000_000,
    )
    namespace_requests_per_second_most: float = _setting(
        0.0,
        "Most requests in one namespace in a second, of all API processes together; 0 is no limit. Twice as many may "
        "come at once. A namespace can have a limit of its own (`docs/how-to/limits-and-quotas.md`).",
        least=0,
        most=1_000_000,
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "Networks (`10.0.0.0/8`) and addresses of proxies that are trusted to name the address of a client. Unset: "
        "the address is that of the connection, also if a header names another.",
        networks=True,
    )
    client_address_header: str = _setting(
        "x-forwarded-for",
        "The header in which the proxies of `trusted_proxies` write the address of a client. Only the one that they "
        "write themselves: a client can send the other one through them.",
        choices=("x-forwarded-for", "forwarded"),
    )
    wrong_keys_per_second_most: float = _setting(
        200.0,
        "Most unknown keys a second that an API process looks up. Further ones wait, and callers of different "
        "addresses take turns. 64 of each network may wait, and 1,000 in all; one more is answered with 503. Keys "
        "that the process has found before never wait.",
        least=1,
        most=1_000_000,
    )
    group_commit_seconds: float = _setting(
        0.0,
        "The time that a single submit waits for others to share its commit, besides those that come while the commit "
        "before is under way. Measured with 0.001: 10% fewer requests a second, and a fifth more at p99. On a slow "
        "disk commits are shared without it.",
        least=0,
        most=0.1,
    )
    group_commit_limit: int = _setting(500, "Most submits that share one commit.", least=1, most=5_000)
    body_limit_bytes: int = _setting(
        1 << 20, "Largest body of one job, also within a batch (1 MB).", least=1 << 10, most=1 << 26
    )
    batch_body_limit_bytes: int = _setting(
        32 << 20, "Largest body of a batch (32 MB). At least `body_limit_bytes`.", least=1 << 10, most=1 << 28
    )
    source_limit_bytes: int = _setting(
        128 << 10,
        "Largest script that stands in a job itself (128 kB), because it is stored and read with the job. A larger one "
        "is uploaded as a stored task, up to `body_limit_bytes`.",
        least=1 << 10,
        most=1 << 20,
    )
    connections_limit: int = _setting(
        2_048,
        "Most connections of an API process. A further one takes the place of the connection that has waited longest "
        "without a request or for the look-up of a new key; if all are at work it is answered with 503. Less where the "
        "process may open fewer files (`ulimit -n`), of which 256 are kept for other things.",
        least=16,
        most=1_000_000,
    )
    streams_limit: int = _setting(
        1_500,
        "Most open streams of live events and logs of an API process; each takes a connection of "
        "`connections_limit`. A further one is answered with 429.",
        least=0,
        most=1_000_000,
    )
    caller_streams_limit: int = _setting(
        1_000, "Most open streams of one caller at an API process; beyond it: 429.", least=0, most=1_000_000
    )
    header_limit_bytes: int = _setting(
        64 << 10, "Largest headers of one request (64 kB); more is answered with 431.", least=4 << 10, most=1 << 20
    )
    uri_limit_bytes: int = _setting(
        16 << 10,
        "Longest address of a request (16 kB); a longer one is answered with 414.",
        least=1 << 10,
        most=1 << 18,
    )
    header_seconds: float = _setting(
        10.0,
        "The time limit of a request's headers, from their first byte; afterwards the answer is 408. A body has this "
        "time before `body_bytes_per_second_least` counts.",
        least=0.1,
        most=600,
    )
    body_bytes_per_second_least: float = _setting(
        500.0,
        "Least rate at which a body must arrive, on average; a slower one is answered with 408. 0 is no limit.",
        least=0,
        most=1_000_000_000,
    )
    keep_alive_seconds: float = _setting(
        75.0,
        "The longest that a connection may be idle between two requests. Longer than that of a proxy in front (60 s is "
        "usual), so that a proxy does not send a request into a connection that just ends.",
        least=1,
        most=86_400,
    )
    result_limit_bytes: int = _setting(
        64 << 10, "Largest JSON result of one attempt (64 kB); it is stored in the row.", least=0, most=1 << 20
    )

    # ------------------------------------------------------------------ how long things are kept
    retention_runs_days: float = _setting(30.0, "The time that finished runs are kept.", least=0.01, most=36_500)
    retention_failed_days: float = _setting(
        90.0,
        "The time that failed runs and dead letters are kept, since they are looked for later.",
        least=0.01,
        most=36_500,
    )
    audit_days: float = _setting(
        400.0,
        "The time that entries of the audit log are kept, whole days. `tickwise audit verify` compares it with what "
        "was dropped.",
        least=30,
        most=36_500,
    )
    audit_anchor_file: Path | None = _setting(
        None,
        "A file outside the database to which each scheduler appends the heads of the audit log's chains, for "
        "`tickwise audit verify --anchors`. Put it where those who can write the database cannot write; the log of the "
        "scheduler has the same heads.",
    )
    dead_letter_days: float = _setting(
        30.0,
        "The time that a failed run waits for a person, as a dead letter that is `open` or `held`; afterwards it is "
        "`expired`, and can still be settled as long as it is kept.",
        least=0.01,
        most=36_500,
    )
    retention_logs_days: float = _setting(7.0, "The time that outputs are kept.", least=0.01, most=36_500)

    # ------------------------------------------------------------------ notices
    public_url: str | None = _setting(
        None,
        "The address under which people reach the pages, such as `https://tickwise.example.com`: notices link to it. "
        "Unset: notices have no links.",
        schemes=("http", "https"),
    )
    smtp_url: str | None = _setting(
        None,
        "The mail server of channels that name none: `smtp://user:password@host:587` (STARTTLS) or "
        "`smtps://user:password@host:465`; for schedulers. Unset: such channels deliver nothing "
        "(`docs/how-to/notices.md`).",
        schemes=("smtp", "smtps"),
        secret=True,
    )
    smtp_from: str | None = _setting(
        None, "The sender's address of notices through `smtp_url`, such as `tickwise@example.com`."
    )

    # ------------------------------------------------------------------ what is written about it
    log_level: str = _setting("info", "The lowest level that is logged.", choices=("debug", "info", "warning", "error"))
    log_runs_per_second: int = _setting(
        100,
        "Lines for starts of runs, for ends, and for failures that an executor logs in a second, each. Above that it "
        "logs failures, up to the same bound, and how many lines it left out. 0: one failure a second, and counts.",
        least=0,
        most=100_000,
    )
    log_requests_per_second: int = _setting(
        100,
        "Lines for requests that went well, and for refused or failed ones, that an API process logs in a second, "
        "each. Above that it logs refusals and failures, up to the same bound, and how many lines it left out. Looks "
        "at health that went well are not logged. 0: no line for requests.",
        least=0,
        most=100_000,
    )
    log_format: str = _setting(
        "auto", "The format of the log; `auto` is text on a terminal and JSON elsewhere.",
        choices=("auto", "console", "json"),
    )  # fmt: skip
    log_dir: Path | None = _setting(
        None,
        "A folder for log files of JSON lines, beside the console (`docs/how-to/logs.md`). Each process has a file of "
        "its own, named by its role. Unset: console only.",
    )
    log_file_bytes: int = _setting(
        50 * 1024 * 1024,
        "The size at which a log file is renamed to `….log.1` and a new one begun. 0: never; another program, such as "
        "logrotate, moves it.",
        least=0,
        most=1 << 40,
    )
    log_files_kept: int = _setting(
        5, "The earlier log files that a process keeps beside the one that it writes.", least=0, most=1_000
    )
    otlp_endpoint: str | None = _setting(
        None,
        "The collector that traces are sent to by OTLP over HTTP, such as `http://collector:4318` "
        "(`docs/how-to/tracing.md`). Needs the extra `otel`. Unset: that of OTEL_EXPORTER_OTLP_ENDPOINT, if there is "
        "one; else no traces.",
        schemes=("http", "https"),
    )
    trace_ratio: float | None = _setting(
        None,
        "The share of requests and runs that begin a trace, for those that bring none. Those of a caller whose trace "
        "is recorded are always recorded. Unset: that of OTEL_TRACES_SAMPLER_ARG, if there is one; else 0.01.",
        least=0,
        most=1,
    )

    # ------------------------------------------------------------------ not settings: how `load` came to them
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The source of each value that is not a default."""
    warnings: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Warnings for the operator that are no reason not to start."""

    def describe(self) -> list[Described]:
        """All settings, as `tickwise config` shows them."""
        return [
            Described(
                name=setting.name,
                value=shown_value(setting, getattr(self, setting.name)),
                origin=self.origins.get(setting.name, "default"),
                meaning=setting.facts.meaning,
            )
            for setting in SETTINGS.values()
        ]

    def __repr__(self) -> str:
        """Without a secret, wherever it is printed."""
        return f"Settings({', '.join(f'{shown.name}={shown.value}' for shown in self.describe())})"


def _declared() -> Iterator[Setting]:
    # Those of other modules are inherited, and stand behind the others.
    apart = {name for base in Settings.__mro__[1:-1] for name in base.__annotations__}
    for declared in sorted(dataclasses.fields(Settings), key=lambda each: each.name in apart):
        if "facts" in declared.metadata:
            kind = str(declared.type).removesuffix(" | None")
            default = None if declared.default is dataclasses.MISSING else declared.default
            yield Setting(declared.name, kind, declared.metadata["facts"], default)


SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _declared()}


# ---------------------------------------------------------------------------------------------------- reading


def load(environ: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings in force. `flags` are options of the command line by setting name; None stands for not given.

    Raises `Misconfigured` for an unknown key, a value out of its limits, or values that contradict each other.
    """
    written: dict[str, SettingSource] = {}
    for file in setting_files(environ):
        written.update(values_of_file(file, list(SETTINGS)))
    from_environment, warnings = _from_environment(environ)
    written.update(from_environment)
    for name, value in (flags or {}).items():
        if value is not None:
            written[name] = SettingSource(SETTINGS[name].option, value)

    values = {name: _read(SETTINGS[name], source) for name, source in written.items()}
    settings = Settings(**values, origins={name: source.place for name, source in written.items()}, warnings=warnings)
    _check_together(settings)
    return settings


def _from_environment(environ: Mapping[str, str]) -> tuple[dict[str, SettingSource], tuple[str, ...]]:
    """A name close to one of ours is a slip, and refused; another may belong to somebody else, and is reported."""
    by_variable = {setting.variable: setting.name for setting in SETTINGS.values()}
    written: dict[str, SettingSource] = {}
    warnings: list[str] = []
    for variable, value in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in RESERVED or variable.startswith(RESERVED_PREFIXES):
            continue
        if _SERVICE_LINK.search(variable) or _SERVICE_LINK.search(value):
            continue
        if variable in by_variable:
            if value:
                written[by_variable[variable]] = SettingSource(variable, value)
            continue
        close = nearest(variable, list(by_variable))
        if close:
            raise Misconfigured(f"The environment sets {variable}, and there is no such setting.{close}")
        warnings.append(f"The environment sets {variable}, and there is no such setting; it has no effect.")
    return written, tuple(warnings)


def _read(setting: Setting, source: SettingSource) -> Any:
    try:
        value = KINDS[setting.kind].read(source.value)
        check_value(setting.facts, value)
    except (ValueError, TypeError, OverflowError):
        found = "a secret that is not shown here" if setting.facts.secret else f"{source.value!r}"
        raise Misconfigured(f"{source.place}: {setting.name} is {found}, and must be {allowed(setting)}.") from None
    return value


def _check_together(settings: Settings) -> None:
    """Rules over two settings. Each line: the rule, the two settings, the reason."""
    check_oidc(settings, {name: setting.variable for name, setting in SETTINGS.items()})
    if (settings.tls_cert_file is None) != (settings.tls_key_file is None):
        there, missing = (
            ("tls_cert_file", "tls_key_file") if settings.tls_cert_file else ("tls_key_file", "tls_cert_file")
        )
        raise Misconfigured(
            f"{there} is set ({settings.origins.get(there, 'default')}), and TLS needs the two files of a pair: set "
            f"{SETTINGS[missing].variable} too, or neither."
        )
    if settings.heartbeat_fail_url is not None and settings.heartbeat_url is None:
        raise Misconfigured(
            f"heartbeat_fail_url is set ({settings.origins.get('heartbeat_fail_url', 'default')}), and nothing says "
            f"where heartbeats go while all is well: set {SETTINGS['heartbeat_url'].variable} too."
        )
    if settings.smtp_url is not None and "@" not in (settings.smtp_from or ""):
        raise Misconfigured(
            f"smtp_url is set ({settings.origins.get('smtp_url', 'default')}), and mail needs the address of a sender: "
            f"set {SETTINGS['smtp_from'].variable}, such as tickwise@example.com."
        )
    for name, through in (("ingest", "buffered"), ("results", "broker")):
        if getattr(settings, name) == through and settings.broker_url is None:
            raise Misconfigured(
                f"{name} is {through} ({settings.origins.get(name, 'default')}), which needs a broker: set "
                f"{SETTINGS['broker_url'].variable}, such as kafka://host:9092, or leave {name} at direct."
            )
    pairs = (
        (settings.lease_seconds >= 2 * settings.heartbeat_seconds, "lease_seconds", "heartbeat_seconds",
         "at least twice", "or one late heartbeat would lose every run of an executor"),
        (settings.claim_ahead_seconds <= settings.horizon_seconds or "claim_ahead_seconds" not in settings.origins,
         "claim_ahead_seconds", "horizon_seconds",
         "at most", "because nothing further ahead has become a run yet"),
        (settings.batch_body_limit_bytes >= settings.body_limit_bytes, "batch_body_limit_bytes", "body_limit_bytes",
         "at least", "because a batch may hold one job of the largest size"),
        (settings.claim_batch <= settings.held_limit, "claim_batch", "held_limit",
         "at most", "because an executor holds its claimed runs"),
    )  # fmt: skip
    for holds, name, other, relation, reason in pairs:
        if not holds:
            places = (settings.origins.get(each, "default") for each in (name, other))
            raise Misconfigured(
                f"{name} is {getattr(settings, name)} ({next(places)}), and must be {relation} {other}, "
                f"which is {getattr(settings, other)} ({next(places)}), {reason}."
            )
