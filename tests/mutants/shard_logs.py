"""Guards of the log of a shard in Cassandra (epochs, doubts, lease, time), and of its keeper."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CASSANDRA: Final = "src/tickwise/adapters/store/cassandra/"
FAULTS: Final = "tests/integration/test_cassandra_faults.py::"
SHARED: Final = "tests/conformance/test_cassandra_log.py::TestSharedLog::"
LOG: Final = "tests/conformance/test_cassandra_log.py::TestEffectLog::"
LOOKS: Final = "tests/unit/adapters/test_cassandra_looks.py::"
KEEPER: Final = "src/tickwise/adapters/store/keeper/"
STORES: Final = "tests/unit/adapters/keeper/test_keeper_store.py::"
BLOCKS: Final = "tests/unit/adapters/keeper/test_blocks.py::"
SET_BACK: Final = "tests/unit/adapters/keeper/test_set_back.py::"

SHARD_LOGS: Final = (
    Mutant(
        "an append of an earlier epoch is refused by the log",
        CASSANDRA + "ownership.cql",
        "WHERE shard = ? IF epoch = ? AND last = ?",
        "WHERE shard = ? IF epoch >= ? AND last >= ?",
        (
            SHARED + "test_an_owner_that_lost_its_epoch_is_refused",
            FAULTS + "test_a_frozen_owner_is_refused_when_it_goes_on",
        ),
    ),
    Mutant(
        "an update without an answer is resolved by the row",
        CASSANDRA + "log.py",
        "not (row.epoch == held.epoch and is_done(row))",
        "True",
        (FAULTS + "test_an_update_without_an_answer_happens_once",),
    ),
    Mutant(
        "a renewal that is carried out late is refused",
        CASSANDRA + "ownership.cql",
        "IF epoch = ? AND renewed < ? AND told_at <= ?",
        "IF epoch = ? AND renewed != ? AND told_at != ?",
        (FAULTS + "test_a_late_renewal_of_the_tenure_changes_nothing",),
    ),
    Mutant(
        "a checkpoint that is named late is refused",
        CASSANDRA + "ownership.cql",
        "IF epoch = ? AND checkpoint = ? AND checkpoint_epoch = ? AND checkpoint_number = ?",
        "IF epoch = ? AND checkpoint != ? AND checkpoint_epoch != ? AND checkpoint_number != ?",
        (FAULTS + "test_a_late_checkpoint_of_the_tenure_names_no_deleted_parts",),
    ),
    Mutant(
        "after an open doubt the log must be acquired again",
        CASSANDRA + "log.py",
        "self._held, self._in_doubt = None, True",
        "pass",
        (FAULTS + "test_after_an_open_doubt_nothing_is_appended_until_the_log_is_acquired_again",),
    ),
    Mutant(
        "an acquisition needs the row as it was seen",
        CASSANDRA + "ownership.cql",
        "IF epoch = ? AND last = ? AND renewed = ? AND owner = ?",
        "IF epoch >= ? AND last >= ? AND renewed >= ? AND owner >= ?",
        (SHARED + "test_two_that_acquire_at_once_have_two_epochs", SHARED + "test_many_rivals_write_one_history"),
    ),
    Mutant(
        "the body of the highest epoch counts",
        CASSANDRA + "schema.cql",
        "epoch DESC",
        "epoch ASC",
        (FAULTS + "test_a_late_body_of_an_earlier_owner_changes_nothing",),
    ),
    Mutant(
        "a body behind the head is no entry",
        CASSANDRA + "log.py",
        "end = min(row.last, (_segment(position + 1) + 1) * SEGMENT_POSITIONS)",
        "end = (_segment(position + 1) + 1) * SEGMENT_POSITIONS",
        (FAULTS + "test_a_body_without_its_head_is_ignored",),
    ),
    Mutant(
        "a log with a hole is refused",
        CASSANDRA + "log.py",
        "if entry.position != position + 1:",
        "if False:",
        (FAULTS + "test_a_missing_entry_is_no_end_of_the_log",),
    ),
    Mutant(
        "a drop keeps what no checkpoint has",
        CASSANDRA + "log.py",
        "min(before, row.checkpoint + 1, row.last + 1)",
        "min(before, row.last + 1)",
        (LOG + "test_without_a_checkpoint_a_drop_takes_nothing",),
    ),
    Mutant(
        "an owner that lost the shard deletes no checkpoint of its successor",
        CASSANDRA + "checkpoints.py",
        " or (epoch, number) > own",
        "",
        (FAULTS + "test_an_owner_that_lost_the_shard_deletes_no_part_of_the_next_checkpoint",),
    ),
    Mutant(
        "the next owner is told of the newest checkpoint",
        CASSANDRA + "log.py",
        "now = row or await self._row.read()",
        "now = row or seen._replace(epoch=epoch, nonce=nonce)",
        (FAULTS + "test_the_next_owner_is_told_of_the_newest_checkpoint",),
    ),
    Mutant(
        "the time of an earlier owner is not told again",
        CASSANDRA + "log.py",
        "self.time.begin_at(now.told_at / 1_000)",
        "pass",
        (FAULTS + "test_the_time_of_a_shard_never_goes_back",),
    ),
    Mutant(
        "one wrong clock of three changes no time",
        CASSANDRA + "time.py",
        "return ordered[(len(ordered) - 1) // 2]",
        "return ordered[-1]",
        (LOOKS + "test_the_time_of_nodes_is_the_middle_one",),
    ),
    Mutant(
        "a node that syncs its commit log from time to time is refused",
        CASSANDRA + "looks.py",
        '"commitlog_sync": ("batch", ',
        '"commitlog_sync": ("periodic", ',
        (LOOKS + "test_one_node_with_an_unsafe_setting_is_an_error",),
    ),
    Mutant(
        "a keeper answers after its log is durable",
        KEEPER + "store.py",
        "await asyncio.shield(group.done)",
        "pass",
        (STORES + "test_a_call_and_a_read_of_its_effect_wait_for_the_log",),
    ),
    Mutant(
        "a lease that is over is tried with pauses",
        KEEPER + "store.py",
        "pause = RENEW_SECONDS",
        "pause = 0.0",
        (STORES + "test_a_lease_that_cannot_be_renewed_is_tried_with_pauses",),
    ),
    Mutant(
        "a block that a checkpoint names is not deleted",
        KEEPER + "history.py",
        "self._stored - self._named",
        "self._stored",
        (BLOCKS + "test_runs_that_go_stay_gone",),
    ),
    Mutant(
        "an owner that lost the log deletes no block of its successor",
        KEEPER + "history.py",
        " if each.epoch <= self._epoch",
        "",
        (BLOCKS + "test_a_block_of_a_later_owner_is_not_deleted",),
    ),
    Mutant(
        "a run that went from a block does not come back",
        KEEPER + "blocks.py",
        "None if named.is_gone(place) else run",
        "run",
        (BLOCKS + "test_runs_that_go_stay_gone",),
    ),
    Mutant(
        "a release without blocks refuses a checkpoint that names some",
        KEEPER + "images.py",
        "WITH_BLOCKS if with_blocks else VERSION",
        "VERSION",
        (BLOCKS + "test_a_release_without_blocks_refuses_a_checkpoint_that_names_some",),
    ),
    Mutant(
        "a state that was thrown away leaves memory",
        KEEPER + "store.py",
        "before.forget()",
        "pass",
        (STORES + "test_states_that_were_thrown_away_leave_memory",),
    ),
    Mutant(
        "the tokens of a tenure begin where the time is",
        KEEPER + "store.py",
        "if (above := token_at(state.now(), state.shard)) > state.tokens.last:",
        "if (above := 0) > state.tokens.last:",
        (SET_BACK + "test_no_token_is_given_twice_after_a_restore",),
    ),
    Mutant(
        "the tokens of a tenure are above those before it, also where the time is lower",
        KEEPER + "store.py",
        "if (above := token_at(state.now(), state.shard)) > state.tokens.last:",
        "if above := token_at(state.now(), state.shard):",
        (SET_BACK + "test_a_shard_that_drew_more_than_the_time_says_goes_on_where_it_was",),
    ),
    Mutant(
        "the tokens of an epoch begin where the time is",
        "src/tickwise/adapters/store/memory/continuity.py",
        "token_in_epoch(number, state.now(), state.shard) + 1",
        "first_token(number) + 1",
        (SET_BACK + "test_one_backup_may_be_restored_again_and_again",),
    ),
)
