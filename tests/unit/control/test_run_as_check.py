"""A job that names a user is refused when it is created, where the process knows which users are allowed."""

from __future__ import annotations

import pytest

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.confining import check_run_as, confine
from tickwise.domain.accounts.run_as import NO_USERS, read_run_as_users
from tickwise.domain.errors import Invalid
from tickwise.roles.shared.served_queues import NOBODY

USERS = read_run_as_users(["backup", "billing=ledger"])


@pytest.mark.parametrize(("namespace", "name"), [("default", "backup"), ("billing", "ledger"), ("default", None)])
def test_an_allowed_user_is_taken(namespace: str, name: str | None) -> None:
    check_run_as(confine(JobBody(run_as=name), "shell", NOBODY, "default", namespace), namespace, USERS)


@pytest.mark.parametrize(("namespace", "name"), [("billing", "backup"), ("default", "ledger"), ("default", "root")])
def test_a_user_of_another_namespace_is_refused_at_its_field(namespace: str, name: str) -> None:
    confined = confine(JobBody(run_as=name), "shell", NOBODY, "default", namespace)
    with pytest.raises(Invalid, match="TICKWISE_RUN_AS_USERS") as refused:
        check_run_as(confined, namespace, USERS)
    assert "/run_as" == refused.value.pointer


def test_a_process_without_the_setting_leaves_the_answer_to_executors() -> None:
    check_run_as(confine(JobBody(run_as="backup"), "shell", NOBODY, "default", "default"), "default", NO_USERS)
