"""The command that a report names plans the same round again; and what is looked at before a trial ends."""

from __future__ import annotations

import shlex

import pytest

from minikafka.chaos.history import History
from minikafka.chaos.rounds import trial
from minikafka.chaos.rounds.kinds import KINDS
from minikafka.chaos.rounds.loads import Load
from minikafka.chaos.rounds.minikafka_clients import MinikafkaClients
from minikafka.chaos.rounds.plan import plan
from minikafka.chaos.rounds.records import PARTITIONS
from minikafka.chaos.rounds.trial import Options
from minikafka.chaos.rounds.visit import Visit


@pytest.mark.parametrize("kinds", [tuple(KINDS), tuple(reversed(KINDS)), ("kill", "pause")])
def test_the_command_of_a_round_plans_it_again(kinds: tuple[str, ...]) -> None:
    """It left out all kinds in another order, which plan something else, and the seventh digit of the duration."""
    words = shlex.split(Options(5, 60.123456, kinds).command)
    given = dict(zip(words[3::2], words[4::2], strict=True))
    again = tuple(given["--faults"].split(",")) if "--faults" in given else tuple(KINDS)
    assert plan(int(given["--seed"]), float(given["--duration"]), again) == plan(5, 60.123456, kinds)
    assert float(given["--duration"]) == 60.123456


def test_servers_with_a_space_are_one_word() -> None:
    assert "a:1, b:2" in shlex.split(Options(5, servers="a:1, b:2").command)


def test_the_seed_of_a_round_on_another_cluster_is_in_its_command() -> None:
    """The load draws from it, say the protocol of its group."""
    words = shlex.split(Options(5, load="group", servers="a:1").command)
    assert words[words.index("--seed") + 1] == "5"


def a_visit(said: list[str], load: str = "produce") -> Visit:
    visit = Visit(Options(1, servers="127.0.0.1:1", load=load), History(), said.append, MinikafkaClients())
    visit.load.writers = visit.load.make_writers()
    return visit


def answers(visit: Visit, *, but: str = "") -> None:
    """What clients of a cluster are told that takes records, ``but`` of one partition, or of one writer."""
    for writer in ("producer-1", "producer-2"):
        for partition in range(PARTITIONS):
            told = [[f"load-{partition}", f"{writer}-{n}", n] for n in range(50)]
            kind = "info" if but in (writer, f"load-{partition}") else "ok"
            visit.load.note(f"{writer}.1", kind, "send", told)


@pytest.mark.parametrize("silent", ["", "load-3", "producer-2"])
def test_a_partition_that_takes_no_records_any_more_fails_the_trial(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round passed though one of six partitions had taken none since a fault: 100 of any others were enough."""
    visit = a_visit([])
    answers(visit)
    monkeypatch.setattr(visit.load, "listen_anew", lambda: (Load.listen_anew(visit.load), answers(visit, but=silent)))
    monkeypatch.setattr(trial, "MORE", 0)
    monkeypatch.setattr(trial, "MORE_WITHIN_S", 0.0)
    found = visit._goes_on()
    assert (found.ok, found.sentence.startswith(f"none of {silent} within")) == (not silent, bool(silent))


def test_a_transactional_writer_that_only_aborts_is_heard() -> None:
    visit = a_visit([], "transactions")
    for number in (1, 2, 3):
        visit.load.note(f"transactor-{number}.7", "ok" if number > 1 else "fail", "send", [[f"load-{number}", "a", 0]])
    assert visit.load.unheard() == ["load-0", "load-1", "load-4", "load-5"]
