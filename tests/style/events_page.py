"""The reference page of the log events, each with its one meaning: `python -m tests.style.events_page`."""

from __future__ import annotations

from tests.style import source
from tests.style.tree import ROOT

PLACE = "docs/reference/events.md"

HEAD = """\
# Log events

<!-- Written from the calls of the loggers in src/ by `python -m tests.style.events_page`; a test compares the two. -->

One line an event: for people on a terminal, as one JSON object a line elsewhere (`log_format`). Each line has `event`
(a name below), `level`, `logger`, `timestamp` (UTC) and the fields listed here; lines that belong to a request have its
`request_id`, as its answer does. Lines of a request or a run that is part of a trace have its `trace_id`; others have
no such field (`docs/how-to/tracing.md`). `exception` means level error with a traceback, without the values of
variables, because some of them are passwords and payloads.

Names and fields are stable: search and alarm by them. Lines whose `event` is a sentence instead of a name come from
drivers, libraries and the innermost parts; their words may change with any version.

| event | level | logger | fields |
| --- | --- | --- | --- |
"""

MEANINGS = {
    "identity_key_rotated": "An administrator had another key made that signs identity tokens.",
    "identity_token_not_renewed": "The identity token of a task that goes on could not be renewed: `detail` says why. "
    "It is tried again each 10 seconds; the one that the task has works for a third of its life yet.",
    "secrets_key_command_failed": "The command of `secrets_key_command` ended a call (`verb`) with another status than "
    "0; `words` is the end of what it wrote to its error output. Secrets cannot be set meanwhile, and tasks that name "
    "some are tried again.",
    "secrets_unproved": "This start could not prove that secrets are stored encrypted, because the command of "
    "`secrets_key_command` failed. `tickwise doctor` proves it later.",
    "secrets_without_key": "No key for secrets is set for this API: none can be set or read "
    "(`docs/how-to/secrets.md`).",
    "heartbeat_came_through": "The receiver of `heartbeat_url` answers again, after so many pings that were `lost`.",
    "heartbeat_lost": "A ping to the receiver of `heartbeat_url` or `heartbeat_fail_url` did not come through. It is "
    "tried again each quarter of `heartbeat_url_seconds`, and logged once.",
    "heartbeat_resumed": "All is well again, and the pings to `heartbeat_url` go on.",
    "heartbeat_withheld": "Something is wrong, so no ping is sent to `heartbeat_url`: `detail` says "
    "why. See `docs/how-to/runbooks.md`.",
    "identities_unlinked": "An administrator removed a person's identities at the provider.",
    "identity_linked": "An administrator linked a person to an identity at the provider, by which the person signs in "
    "from now on.",
    "log_file_unwritten": "Lines cannot be written to the log file of this process (a full disk, a removed folder). "
    "They are on the console alone until `log_file_written_again`; `tickwise_log_lines_lost_total` counts them.",
    "log_file_written_again": "The log file is written again; `lost` lines are not in it.",
    "oidc_keys_rotated": "The provider publishes other keys than before. That is usual.",
    "oidc_provider_away": "The provider that signs people in gave no answer, or none that can be used. Logged once "
    "until it is back.",
    "oidc_provider_back": "The provider answers again.",
    "oidc_role_unknown": "`oidc_roles` gives a role or names a namespace that is not there, so it gives nothing; "
    "`tickwise doctor sso`.",
    "provider_sign_in_refused": "A sign-in by the provider was refused; the sign-in page shows the same reason.",
    "proxy_sign_in_refused": "Headers of a proxy signed nobody in; the sign-in page shows the same reason. At an "
    "address that is not in `proxy_sign_in_from`, the proxy has moved, or somebody tries.",
    "provider_signed_out": "The provider reported a logout, which ended so many `sessions` here.",
    "spans_unsent": "The collector of traces is away, or refuses spans. They are dropped and counted "
    "(`tickwise_spans_dropped_total`) until `spans_sent_again`; no request and no run waits for it.",
    "traces_unavailable": "A variable of OpenTelemetry names a collector, and its libraries are not installed: this "
    "process records no traces.",
    "spans_sent_again": "The collector of traces takes spans again.",
    "spans_unsendable": "Spans could not be prepared for sending, for an unexpected reason. Please report "
    "it, with the trace.",
    "quotas_set": "An administrator of the installation set the quotas of a namespace; `quotas` has all of them.",
    "audit_anchor_failed": "The heads of the audit log's chains could not be appended to `audit_anchor_file`. They are "
    "in the log, and the next look tries again; see that the file can be written.",
    "audit_anchored": "The head of a chain of the audit log, for `tickwise audit verify --anchors`: keep these lines "
    "where those who can write the database cannot write.",
    "audit_not_written": "Refusals could not be written to the audit log, because the store was away; they are tried "
    "again.",
    "live_events_failed": "The reader of live events met an unexpected error, a bug; it reads on after a "
    "second, and its streams miss nothing.",
    "live_permits_failed": "The permissions of an open stream could not be looked up again, because of a bug; "
    "the next look is a second later.",
    "live_events_gap": "The feed did not reach back to where this process had read, because it or the store stood "
    "still for more than five minutes, or the store was set back. Each open stream was told (`gap`).",
    "objective_burning": "Late starts use up the error budget of an objective too fast; `objective_id` is its id, or "
    "that of the job that has it. Logged once a minute by each scheduler while it lasts.",
    "run_as_not_offered": "These `users` of `run_as_users` are no users that tasks can run as here: `detail` says why "
    "(no account, or this executor is not root's). Their runs wait for another executor.",
    "rules_left_out": "More notification rules of the namespace concern one event than are asked (`asked`); the others "
    "are left out, the newest first. Logged once a minute for each "
    "namespace: put several rules into one, or give labels.",
    "absence_noticed": "The store could not be reached (`store_away`), or no scheduler was at work "
    "(`scheduler_away`), for so many seconds from `begin` on. It is on record, too.",
    "action_links_off": "The key of this scheduler was retired in the store, so notices have no action links. "
    "Give it the key that the processes that serve `auth` sign with (`token_key_file`).",
    "attempt_stale": "The store refused the start of an attempt, because another executor holds the run by now. The "
    "attempt is killed and reports nothing.",
    "attempt_superseded": "This executor claimed a run while it still ran an older attempt of it. The older "
    "attempt is killed, and the run goes back for a moment.",
    "awaited": "At its start the process waits for a service that it needs: `what` names it, the store or the broker. "
    "`up` waits for a limited time. Logged every 10 s.",
    "batch_inapplicable": "Messages of the broker could not be applied together. They are applied one by one; a "
    "message that fails alone is parked. Please report it.",
    "batch_refused": "Submits of one statement could not be stored together. Each is tried alone, so that one bad "
    "job does not refuse the others.",
    "bootstrap_key_replaced": "`TICKWISE_BOOTSTRAP_KEY` has changed: the former key is revoked.",
    "bootstrap_key_revoked": "The key in `TICKWISE_BOOTSTRAP_KEY` was revoked, or replaced by another one. Requests "
    "with it are refused. Set a new one: `openssl rand -hex 32`.",
    "cassandra_found_again": "No node of Cassandra could be reached at the known addresses; the names of database_url "
    "led to these nodes, and work goes on with them.",
    "cassandra_not_found": "No node of Cassandra can be reached, neither at the known addresses nor by the names of "
    "database_url. It is tried again every five seconds.",
    "broker_away": "The broker could not be reached at the start. Work goes on without it, and the process keeps "
    "trying.",
    "broker_back": "The broker, which was away at the start, is connected.",
    "broker_unopened": "The broker could not be opened for an unexpected reason; the process works without "
    "it and tries again. Report it, with the trace.",
    "broker_refused": "The broker cannot be used: it serves another cluster, or its topics do not fit. "
    "The process ends.",
    "broker_unavailable": "A loop of a role needed the broker, which could not be reached or did not confirm. It tries "
    "again, and says `loop_recovered` when it goes on.",
    "calendar_gone": "A job names a calendar that does not exist. Jobs that name it wait; create it again, or change "
    "them.",
    "calendar_unreadable": "A calendar cannot be read by this version. Jobs that name it wait until it can.",
    "certificate_ends": "The certificate of the ports (`file`, for `name`) ends in so many `days`, and should have "
    "been renewed by now. Logged once a day. Renew it: its files are read again by themselves.",
    "certificate_expiry_unnoted": "The store did not accept the notice that the certificate ends soon (`error`), so "
    "rules do not know of it yet. It is tried again with the next look.",
    "certificate_replaced": "The files of the certificate have changed, and new connections get the new one, which "
    "ends at `ends_at` (Unix seconds).",
    "certificate_unusable": "The files of the certificate have changed and cannot be served (`reason`); the one before "
    "stays. They are tried again when they change again.",
    "channels_deleted": "Topics of Tickwise are gone from Kafka. They are made again; their messages are found in the "
    "store, or sent again.",
    "checkpoint_not_kept": "The store could not write a checkpoint. Nothing is lost: the log has it, and grows until "
    "the next one.",
    "claim_came_late": "A shard gave runs after the executor had gone on, so that they went back. Its next claim is "
    "waited for longer. Look at that database: its answers take more than half a second.",
    "claim_left": "A shard answered a claim after the executor had gone on, and what it gave could not be given "
    "back. The runs are free when the shard ends the executor's lease there, or sooner.",
    "shard_joined_again": "The executor rejoined a shard that it had lost, under its number.",
    "shard_lease_over": "The executor stopped the tasks of a shard in which it no longer has a lease; those of the "
    "others go on. Look at that database.",
    "shard_lost": "A shard did not renew the executor's lease for half of it, or had expired the executor (`expired`). "
    "Its runs are stopped here.",
    "shard_not_ours": "A database that became reachable does not belong to this installation, or is named twice. It is "
    "left out: correct TICKWISE_DATABASE_URL.",
    "clear_text": "The API can be reached from other machines without TLS: keys and passwords can be read in "
    "transit. `advice` says what to set.",
    "claim_given_back": "The answer to a claim was lost, or the database carried the claim out after its executor had "
    "abandoned it. The claimed runs (`count`) went back unstarted.",
    "connection_failed": "A connection could not be read for an unexpected reason; its request is answered "
    "with 400. Report it, with the trace.",
    "connections_refused": "Connections refused in the last second, before any route was found: each of `codes` "
    "(error codes; `answer_unread`: cut off because the client read nothing of its answer; `tls_handshake_failed`) and "
    "its count.",
    "database_back": "The embedded PostgreSQL runs again.",
    "database_died": "The embedded PostgreSQL ended by itself; it is started again. Work goes on when it is back.",
    "database_lost": "The embedded PostgreSQL cannot be started again; `tickwise up` ends.",
    "database_moved": "The embedded PostgreSQL came back at another address; `tickwise up` ends. Start it again.",
    "definition_unreadable": "A run's definition cannot be read by this version. The run ends as FAILED, with the "
    "reason `invalid`.",
    "drain_over": "The time for draining (`drain_seconds`) is over and runs still go on; they are stopped now.",
    "embedded_postgres_orphan_found": "A PostgreSQL of an earlier `tickwise up` that was killed still holds the data "
    "folder; it is stopped first.",
    "embedded_postgres_outside_data_dir": "PostgreSQL does not run as root, and the user that it runs as cannot "
    "reach the data folder: its files lie in `cluster` instead. Back up that folder.",
    "embedded_postgres_password_set_anew": "The password file was missing or wrong, so a new password was set.",
    "embedded_postgres_ready": "The embedded PostgreSQL takes connections.",
    "embedded_postgres_remains_killed": "Processes left by a dead PostgreSQL held its memory; they were ended.",
    "embedded_postgres_still_starting": "It starts slowly, perhaps because it recovers from a crash. `said` is its "
    "last line.",
    "embedded_postgres_stops_slowly": "It did not end in time after `signal`; a harder one follows.",
    "executor_expired": "This executor was silent for longer than its lease. Its runs go on elsewhere; it kills "
    "its running tasks, reports nothing of them, and joins again under a new number.",
    "ended_runs_not_moved": "A store over a log could not move ended runs to its file, since the disk is full or the "
    "folder cannot be written: see `detail`. They stay in memory, and it is tried again after some more.",
    "jobs_not_moved": "A store over a log could not move jobs that are over to a file, since the disk is full or the "
    "folder cannot be written: see `detail`. They stay in memory, and it is tried again after some more.",
    "environment_built": "An executor built the environment of a script.",
    "environment_failed": "The environment of a script could not be built; `detail` has the cause. Its run fails, and "
    "is retried if that can help.",
    "environment_unreadable": "The folder of environments could not be read; the environment is built again.",
    "environments_not_declared": "The store was away when the environments of `count` stored jobs were to be noted. "
    "Their first runs build them, if no later job with the same declaration is stored before.",
    "environments_removed": "Environments that were used least recently were removed: the limits of the settings.",
    "executor_joined": "An executor joined and claims runs.",
    "executor_waits_to_join": "An executor starts while the store is away, or did not learn what became of its first "
    "call. It tries again for 30 s; then the process ends, and its supervisor starts it again.",
    "first_key_unmade": "No key exists yet, none can be shown, and `file` cannot be written. No key is accepted: "
    "set `TICKWISE_BOOTSTRAP_KEY`.",
    "fires_refused": "The store refused the results of `count` schedules, because of one of them. They are recorded "
    "one by one, and that one is put off (`schedule_unrecordable`).",
    "held_otherwise": "This executor and the store differed in `count` runs that it held or had ended: the store lost "
    "acknowledged writes, when a standby took over or a backup was restored. Ends are reported again, and tasks "
    "whose claims were lost are stopped; [what to do](../how-to/failover-and-restore.md).",
    "invariant_unchecked": "An invariant could not be checked. The others were. Please report it.",
    "invariant_unhealed": "A violation of an invariant could not be repaired. The repair is tried again in the next "
    "pass. Please report it.",
    "run_started": "A runner got an attempt of a run; `late_seconds` counts from its due time. At most "
    "`log_runs_per_second` such lines a second.",
    "run_ended": "An attempt of a run ended well, or was cancelled. At most `log_runs_per_second` such lines a second.",
    "run_failed": "An attempt of a run failed; with the `outcome` RETRYING it is tried again. At most "
    "`log_runs_per_second` such lines a second.",
    "runs_unlogged": "So many lines of starts, successes and failures were left out since the last such line, because "
    "there were more than `log_runs_per_second`.",
    "runs_unserved": "Runs wait because no active executor serves their queue and labels; `detail` says which. Logged "
    "once an hour for each.",
    "invariant_violated": "An invariant is violated: `invariant` names it ([metrics](metrics.md)), `subjects` are the "
    "runs, jobs or operations, `detail` is of the first. `healed` of the `count` were repaired at once.",
    "invariant_violations_untold": "Violations of an invariant in one pass beyond those that are logged one by one.",
    "job_parked": "A job made more runs in a minute than its `fuse_per_minute`, or its namespace's "
    "`fires_per_minute_most`, allows. It is paused until a person resumes it.",
    "job_unplannable": "A job has no timer, and its next occurrence could not be computed. Please report it.",
    "job_moved": "A caller moved a job to another namespace.",
    "kafka_says": "A message of Kafka's client library. At level debug only.",
    "kafka_failed": "An error that was not foreseen, in the part `who` that serves Kafka. It starts again; please "
    "report it.",
    "kafka_trouble": "An error of Kafka's client library, logged once each. The library goes on by itself.",
    "kafka_well_again": "The error logged as `kafka_trouble` is over.",
    "sqs_trouble": "SQS refuses, is away, or lost a queue: `detail`. Logged once for each `kind`; it is tried again.",
    "sqs_well_again": "SQS answers again: what was logged as `sqs_trouble` is over.",
    "device_decided": "A person approved or denied the sign-in of a terminal, which asked from `asked_from`.",
    "federation_made": "A federation was made: tokens of the `issuer` are taken from now on.",
    "federation_removed": "A federation was removed: its tokens are taken no more.",
    "key_made": "An API key was made: its maker, and the key used.",
    "key_rotated": "An API key got another secret; the one before works for `overlap_seconds` more. Neither is logged.",
    "key_revoked": "An API key was revoked: the person, and the key used.",
    "key_taken_out": "The administrator of one namespace took the rights of a key there; it works in its others.",
    "lease_not_renewed": "The store could not renew its hold on its log. It tries again; when the lease ends, it "
    "answers nothing until it is renewed.",
    "lease_over": "This executor could not renew its lease in time and stops its tasks, before others may take the "
    "runs over. Their ends are reported when the store is back.",
    "leases_expired": "Executors died or went silent. `freed` runs go on elsewhere; those `quarantined` have taken "
    "too many executors down and ended as FAILED, with the reason `poison`; those `unknown` ended as FAILED because "
    "their jobs say not to run them again (`on_unknown`).",
    "leave_unheard": "This executor ended and could not report it to the store. Its runs go on elsewhere when its "
    "lease is over.",
    "loop_failed": "A step of a role failed with an error that was not foreseen. It is repeated, ever more seldom. "
    "Please report it.",
    "loop_recovered": "A loop that had failed, or missed the store, works again.",
    "message_parked": "A message could not be read or applied and was put into the channel `dead`, with its bytes and "
    "the reason.",
    "notice_dead": "A notice could not be delivered: its receiver refused it for good, or each try of a day failed. "
    "`error` is what was said last. A person can send it again.",
    "notice_delayed": "A try to deliver a notice failed; the next one is in `again_seconds`.",
    "notice_delivered": "A channel took a notice of so many `events`, with so many `tries`. `error` names recipients "
    "that were refused.",
    "notice_unrecorded": "A notice was tried, and the outcome could not be recorded for as long as its lease lasts: "
    "another scheduler delivers it again, under the same id.",
    "messages_parked": "Of so many messages (`count`) that could not be read or applied at once, only the first were "
    "logged one by one.",
    "not_ready": "`/readyz` of a role without an API answered 503; the line has the reason.",
    "operation_failed": "A page of an operation over many things failed with an unexpected error. It is "
    "tried again. Please report it.",
    "operation_stopped": "An operation over many things cannot go on, because the person or the key that asked for it "
    "may no longer do it. What was done stays; `problems` has the reason.",
    "operation_overtaken": "Another scheduler has carried out the same page of an operation. Nothing was done or "
    "counted twice.",
    "outcome_impossible": "The store refused an outcome as impossible: a bug, please report it. The other outcomes "
    "of the batch are stored; this run ends as FAILED.",
    "outcomes_refused": "The store refused results that came too late: others have taken the runs over. Their ends "
    "are recorded by those.",
    "artefacts_expired": "Artefacts were deleted: those past the retention of runs, or the oldest for want of room.",
    "outputs_expired": "Outputs of runs older than their retention were deleted.",
    "blob_storage_unusable": "At its start the process could not list the bucket; `detail` says what to do. "
    "It goes on.",
    "output_waits_on_disk": "The bucket did not take output; from now on it waits on the disk of this executor.",
    "output_delivered_again": "The bucket takes output again. `lost_bytes` did not fit on the disk meanwhile.",
    "output_spool_full": "The disk of this executor may hold no more output that waits: further output is lost, and "
    "counted in the logs of its runs. Mend the bucket, or raise `output_spool_bytes`.",
    "output_adopted": "Output that an earlier executor left on this disk is delivered.",
    "output_adoption_failed": "The folder of waiting output could not be read; it is tried again.",
    "output_left_on_disk": "The executor ended while output waited. The next executor on its data folder delivers it.",
    "page_cut": "As `answer_cut`, of a download from a page.",
    "answer_cut": "The store of outputs failed in the middle of a download. The connection was closed, so the client "
    "sees that it is incomplete; it can continue by `Range`.",
    "log_lost": "Another process has the log of the store, or its disk confirmed no write. This process ends. Start it "
    "again.",
    "log_not_compacted": "The parts of a log that has ended did not become one object. It reads the same.",
    "log_not_written": "An entry of the log of the store could not be written, such as on a full disk. Requests get "
    "503; the store tries again each second, and goes on by itself.",
    "keeper_call_failed": "A call of a role met a bug of the keeper. The caller is told; report it with the traceback.",
    "keeper_client_refused": "Somebody connected to the keeper without the key of the keyspace: `count` times since "
    "the last such line, of which there is one in 10 s at most.",
    "keeper_connection_ended": "The keeper ended a connection: `silent`, no key within 10 s; `crowded`, too many "
    "connections of that network, or of all, without a key; `unreadable`, bytes that are no message. `count` is the "
    "number since the last such line, of which there is one in 10 s at most.",
    "effects_refused": "No entry of the log can hold the effects of this call: they are too large, or have a value "
    "that cannot be kept. The call is refused, and the state is built again without it: a pause of the shard. Report "
    "it.",
    "keeper_found": "This process found the keeper that owns the shard, and is connected to it.",
    "keeper_listens": "The keeper listens, and publishes this place when it owns the shard.",
    "shard_not_given_back": "A keeper that ends could not give its shard back: the next one waits for the lease.",
    "shard_handed_over": "Another keeper has fewer shards and gets this one (`goal`): its clients pause for a moment.",
    "shard_came_back": "The keeper `goal` did not take a shard that was handed to it, so this one has it again, and "
    "gives that keeper nothing for 10 minutes. Look at its log.",
    "keepers_not_seen": "A keeper cannot read who is alive and who owns which shard: all stays as it is meanwhile.",
    "shard_not_opened": "A keeper cannot own its shard, or cannot read its log. It tries again each second.",
    "row_refused": "Cassandra can never take this row of a readable table. It is left out, and all others are written. "
    "`count` is the number since the last such line of the shard, of which there is one in 10 s at most.",
    "tables_behind_checkpoint": "Readable tables missed entries of the log that are in no segment any more, because "
    "they were not reachable. All rows are written again, and outdated ones may remain: rebuild the tables with "
    "`tickwise db rebuild-tables`.",
    "tables_failed": "The projection of readable tables met a bug: please report it. Commits go on without it, "
    "and it is tried again.",
    "tables_made_anew": "The readable tables are new ones. All rows are written again from checkpoint and log.",
    "tables_missing": "A readable table is not there. Commits go on without the tables; run `tickwise db upgrade`.",
    "tables_not_followed": "The readable tables could not be followed for a moment, such as while Cassandra was away. "
    "It is tried again.",
    "shard_goes": "The keeper gives the shard back: it waited so many seconds for a keeper that has read its log.",
    "shard_read_ahead": "A keeper that waits for a shard has read its log, and goes on reading it.",
    "log_opened": "The store read its checkpoint and its log, and is ready.",
    "partitions_kept": "Partitions of the history were made ahead, or dropped with all their runs when their "
    "retention was over.",
    "receipt_not_kept": "A request with an Idempotency-Key was carried out, but its answer could not be kept: a "
    "repeat is carried out again.",
    "request": "A request was answered: by its `route` (the template of the path), in so many `seconds`, for the key "
    "`key_id`, asked from `address`, which is a proxy's if one is in front. Status 499: the client was gone. At most "
    "`log_requests_per_second` of them.",
    "requests_unlogged": "So many requests went well (`answered`), were refused or failed (`refused`) without a line "
    "of their own since the last such line, because there were more than `log_requests_per_second`.",
    "request_failed": "A request met a bug and got a 500. Please report it, with the traceback.",
    "request_put_off": "A request got 503 or 429; the line has the cause, which the caller is not told.",
    "request_refused": "A request that had been answered with 202 could not be applied: it is an operation that has "
    "failed, with the reason.",
    "requests_unsigned": "`requests_keys` is not set where requests go through the broker: a client that can write "
    "their topic can act as any key.",
    "requests_untold": "Other processes could not be told of `count` requests that this one accepted: until those "
    "are applied, they may answer 404 for some of them.",
    "results_unapplied": "Results in the broker were not applied for a while, for example because no recorder runs. "
    "They are written to the store directly; a result written twice counts once.",
    "results_unpublished": "The broker did not take results in time. They are written to the store directly, and for "
    "some seconds all others, too.",
    "schedule_undecidable": "The next occurrence of a job could not be computed. Its timer is put off and tried again; "
    "other jobs fire.",
    "schedule_unrecordable": "The store refused the result of a job's schedule. Its timer is put off and tried again, "
    "with nothing lost; other jobs fire. Please report it.",
    "script_changed": "A stored script has another digest: it was changed or damaged, and is not run. Check who can "
    "write to the blob storage.",
    "script_moved": "A script that all namespaces shared was moved to the namespaces that stored it.",
    "search_replica_away": "The replica for searches could not be asked. Searches go to the database itself.",
    "search_replica_back": "Searches go to the replica again.",
    "send_failed": "Requests could not be sent for an unexpected reason. Their callers got a 500. Please report it.",
    "sequence_cut": "The chain of runs is so long that it is probably a cycle. No further run is started. "
    "Look at `then` and `on_failure` of the job.",
    "sequence_ended": "The next job of a sequence is cancelled or gone, so nothing was started.",
    "sequence_stuck": "The successors of an ended run could not be computed or stored. They are tried again; others "
    "go on. Please report it.",
    "sequence_page_failed": "The successors of several runs could not be stored together. Each is tried by itself. "
    "Please report it.",
    "setting": "A setting is probably a mistake.",
    "start_unrecorded": "The start of runs that were once lost with an executor, or that may have to wait for an "
    "earlier run of their job or for a limit, could not be recorded. They do not begin before it is.",
    "stop_overdue": "This process was told to end, and is still running 10 s after its tasks had their time: where "
    "each of its tasks and threads waits, the innermost place last. 50 s later it exits at once with status 1, as "
    "after `kill -9`.",
    "stopping": "A signal asked this process to end. Running tasks are waited for.",
    "store_away": "The store cannot be reached. It is tried again at growing intervals, and nothing is lost. Logged "
    "once per outage and loop.",
    "store_set_back": "The store is in another `epoch` than `before`: a standby took over, or a backup was restored. "
    "It may have lost its last acknowledged writes, so this executor compares every run that it holds.",
    "task_starter_failing": "No task could be started as another user, because one starter after the other ended. This "
    "executor claims no `python` and `shell` tasks for `pause_seconds`, and gives back those that it holds. Look at "
    "`detail`, at the memory of the machine and at its limit of processes.",
    "task_parent_failing": "The process that starts ordinary tasks cannot be started (`detail`). Meanwhile the "
    "executor starts each task itself, which takes longer. Look at the memory of the machine and at its limit of "
    "processes.",
    "prepared_sandbox_failing": "A prepared sandbox could not be made. Tasks of its namespace get a sandbox of their "
    "own, and the next one is tried after a minute.",
    "prepared_sandbox_lost": "A prepared sandbox ended or stood still. Its tasks have ended with it, and their outcome "
    "is unknown. The next tasks get another one.",
    "answer_not_renewed": "An expensive answer of the store could not be refreshed. The next caller gets the reason.",
    "prepared_sandbox_unmade": "A task could not start in a prepared sandbox. It has not begun there, and gets one of "
    "its own.",
    "task_parent_lost": "The process that starts ordinary tasks ended. Another one is started after a second. Tasks "
    "that it had started go on; their exit status is lost, so their jobs' `on_unknown` decides. `starts`: tasks that "
    "it had been asked for and had not answered of.",
    "network_proxy_lost": "The process through which sandboxes with a list of destinations reach them (`pid`) was "
    "ended. The connections of so many `runs` are broken and stay refused; the next such run begins another one. See "
    "`docs/how-to/network-policy.md`.",
    "secrets_away": "Providers of secrets did not answer about so many `secrets`; `detail` is about the first. The "
    "runs that name them went back, and are tried again.",
    "secret_provider_failing": "A provider of secrets (`provider`) failed with an error of this class (`error`). The "
    "runs that name its secrets go back, and are tried again.",
    "task_starter_lost": "The process that starts tasks as other users ended (`status`; negative: the signal). The "
    "next start makes a new one. Tasks that it had started go on; their exit status is lost, so their jobs' "
    "`on_unknown` decides.",
    "timer_unmoved": "A job's next time by the new zone data could not be computed. The old one stays.",
    "timers_rezoned": "Next times that had been computed with other zone data were computed again; `count` moved.",
    "up": "Everything runs.",
    "user_added_by_provider": "A person signed in by the provider for the first time and was added.",
    "user_roles_followed_provider": "A person's groups at the provider changed, and so did the roles; earlier "
    "sessions ended.",
    "window_unreadable": "A maintenance window cannot be read by this version, and closes nothing.",
    "zone_data_changed": "The machine has other zone data than before; times computed with the old data are computed "
    "again.",
    "namespace_added": "A caller added a namespace.",
    "namespace_changed": "A caller changed the display name or the state of a namespace.",
    "namespace_removal_asked": "A caller asked for the removal of a namespace; schedulers carry it out.",
    "namespace_removal_failed": "A page of the removal of a namespace failed, and is tried again in 30 seconds.",
    "namespace_removed": "A namespace is gone, with all that it held.",
    "refresh_token_reused": "A refresh token was shown a second time, so one of the two clients stole it. Its session "
    "is ended; the person signs in again.",
    "sign_in_failed": "A name or a password was wrong. `account` is the person's name, empty if there is no such "
    "person: a name that was typed may be a password. `address` is that of the client.",
    "signed_in": "A person signed in with a password.",
    "second_factor_enrolled": "A person enrolled an app with codes or a passkey.",
    "second_factor_not_opened": "The seed of an app cannot be decrypted: its key is not among those that are set. Its "
    "codes no longer work; recovery codes and passkeys do.",
    "second_factor_wrong": "A code, a recovery code or a passkey was wrong, or was used before, after the right "
    "password.",
    "second_factors_reset": "An administrator removed the second factors of a person.",
    "passkey_refused": "A passkey was shown that does not fit what was asked for; `reason` says in which way.",
    "passkey_not_made": "A browser's answer to a registration is no passkey as it was asked for.",
    "passkey_counter_fell": "The counter of a passkey fell: there may be a copy of it. It no longer works. Ask the "
    "person, and have them enrol another one.",
    "browser_signed_in": "A session of the pages began: a person signed in with a password, or a link was opened.",
    "page_failed": "A page failed by a fault of Tickwise: the visitor was told the id of the request, and no more.",
    "plan_unreadable": "The time line left a job out whose schedule this version cannot read (`detail`).",
    "page_put_off": "A page could not be shown for now, because the database or another part was away.",
    "role_dropped": "A caller removed a custom role.",
    "role_put": "A caller made a custom role, or replaced its permissions.",
    "user_added": "A caller added a person.",
    "user_changed": "A caller changed name, e-mail, roles or `active` of a person.",
    "user_chose_password": "A person chose a password with the link of an invitation or a reset.",
    "user_registered": "A person registered themselves (`registration`).",
    "zygote_child_lost": "A process that was to become a script ended before it had its request, or did not take it. "
    "The script starts cold.",
    "zygote_lost": "A process that scripts are forked from (`pid`) ended, or did not answer in time. The script starts "
    "cold, and the next ones are forked from another. Scripts that it had forked go on; where it ended, their exit "
    "status is lost, so their jobs' `on_unknown` decides.",
    "zygote_unusable": "Scripts of this interpreter (`program`) cannot be forked and start cold: it is no CPython, or "
    "did not come to its beginning. `detail` has its last words. It is tried again after a minute.",
}


def page() -> str:
    found = sorted(source.events(), key=lambda event: event.name)
    rows = [
        f"| [`{event.name}`](#{event.name}) | {event.level} | `{event.logger}` | "
        + (", ".join(f"`{field}`" for field in event.fields) or "–")
        + " |\n"
        for event in found
    ]
    entries = [f"\n## {event.name}\n\n{MEANINGS.get(event.name, '')}\n" for event in found]
    return HEAD + "".join(rows) + "".join(entries)


if __name__ == "__main__":
    (ROOT / PLACE).write_text(page(), encoding="utf-8")
