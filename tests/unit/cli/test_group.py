"""``minikafka group``: what is refused before a broker is asked."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.cli.group import STATES, TYPES
from minikafka.groups.consumer.group import ConsumerGroupState
from minikafka.groups.group import GroupState


@pytest.mark.parametrize("words", ["--state Bogus", "--state stable,Bogus", "--type Bogus"])
def test_a_state_or_type_that_is_none_is_refused(words: str) -> None:
    said = CliRunner().invoke(COMMAND, ["group", "list", *words.split()], env={"COLUMNS": "200"})
    assert said.exit_code == 2
    known = STATES if "--state" in words else TYPES
    assert f"'Bogus' is none of {', '.join(known)}" in said.output


def test_all_states_are_known() -> None:
    assert set(STATES) == {each.value for states in (GroupState, ConsumerGroupState) for each in states}
