"""The server-side assignors: what must hold for any members and topics, and some that can be followed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.groups.consumer.assignors import ASSIGNORS
from minikafka.groups.consumer.assignors.model import Assignment, Subscriber
from minikafka.groups.consumer.topics import Topic

T, U, V = UUID(int=1), UUID(int=2), UUID(int=3)
RACKS = ("a", "b", "c")


def topic(topic_id: UUID, partitions: int, racks: Sequence[str] = ()) -> Topic:
    return Topic(topic_id, f"t{topic_id.int}", partitions, tuple(frozenset(each) for each in racks))


def topics(*found: Topic) -> dict[UUID, Topic]:
    return {each.topic_id: each for each in found}


def members(names: str, *topic_ids: UUID) -> list[Subscriber]:
    return [Subscriber(name, frozenset(topic_ids)) for name in names]


def after(found: Assignment, before: Sequence[Subscriber]) -> list[Subscriber]:
    """The members with what they were assigned."""
    return [
        each._replace(assigned={name: frozenset(some) for name, some in found[each.member_id].items()})
        for each in before
    ]


def pairs(found: Assignment) -> dict[str, list[tuple[int, int]]]:
    return {
        name: sorted((topic_id.int, index) for topic_id in some for index in some[topic_id])
        for name, some in found.items()
    }


@st.composite
def worlds(draw: st.DrawFn, *, equal: bool = False) -> tuple[list[Subscriber], dict[UUID, Topic]]:
    """Members with assignments that may be anything, and topics, with and without racks."""
    with_racks = draw(st.booleans())
    known = {}
    for topic_id in (T, U, V):
        count = draw(st.integers(1, 7))
        racks = draw(st.lists(st.sampled_from(RACKS), min_size=count, max_size=count)) if with_racks else ()
        known[topic_id] = topic(topic_id, count, racks)
    subsets = st.sets(st.sampled_from([T, U, V]), min_size=1)
    same = frozenset(draw(subsets))
    owned = st.dictionaries(st.sampled_from([T, U, V, UUID(int=9)]), st.frozensets(st.integers(0, 9)), max_size=3)
    found = [
        Subscriber(
            f"m{number}",
            same if equal else frozenset(draw(subsets)),
            draw(st.sampled_from([None, f"i{9 - number}"])),
            draw(st.sampled_from(RACKS)) if with_racks else None,
            draw(owned),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    wanted = frozenset().union(*(member.topic_ids for member in found))
    return found, {topic_id: each for topic_id, each in known.items() if topic_id in wanted}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.spec("G4")
@given(world=worlds())
def test_each_partition_goes_to_one_subscriber(name: str, world: tuple[list[Subscriber], dict[UUID, Topic]]) -> None:
    found, known = world
    assignment = ASSIGNORS[name](found, known)
    assert assignment.keys() == {member.member_id for member in found}
    given_out = sorted(pair for some in pairs(assignment).values() for pair in some)
    assert given_out == sorted(
        (each.topic_id.int, index) for each in known.values() for index in range(each.partitions)
    )
    for member in found:
        assert assignment[member.member_id].keys() <= member.topic_ids
        assert all(assignment[member.member_id].values()), "a topic without partitions"


@pytest.mark.spec("G4")
@given(world=worlds(equal=True))
def test_uniform_is_even_and_then_stays(world: tuple[list[Subscriber], dict[UUID, Topic]]) -> None:
    found, known = world
    assignment = ASSIGNORS["uniform"](found, known)
    sizes = [len(some) for some in pairs(assignment).values()]
    assert max(sizes) <= min(sizes) + 1
    assert ASSIGNORS["uniform"](after(assignment, found), known) == assignment


@given(world=worlds())
def test_uniform_ends_where_no_single_move_helps(world: tuple[list[Subscriber], dict[UUID, Topic]]) -> None:
    found, known = world
    assignment = ASSIGNORS["uniform"](found, known)
    sizes = {name: len(some) for name, some in pairs(assignment).items()}
    for taker in found:
        for giver, some in assignment.items():
            if taker.topic_ids & some.keys():
                assert sizes[giver] <= sizes[taker.member_id] + 1
    assert ASSIGNORS["uniform"](after(assignment, found), known) == assignment


@pytest.mark.spec("G4")
def test_uniform_moves_only_what_a_new_member_needs() -> None:
    known = topics(topic(T, 6), topic(U, 6))
    first = members("ab", T, U)
    before = ASSIGNORS["uniform"](first, known)
    three = [*after(before, first), *members("c", T, U)]
    now = pairs(ASSIGNORS["uniform"](three, known))
    assert {name: len(some) for name, some in now.items()} == {"a": 4, "b": 4, "c": 4}
    assert set(now["a"]) < set(pairs(before)["a"])
    assert set(now["b"]) < set(pairs(before)["b"])


def test_range_cuts_equal_topics_alike() -> None:
    known = topics(topic(T, 5), topic(U, 5))
    assert pairs(ASSIGNORS["range"](members("ba", T, U), known)) == {
        "a": [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)],
        "b": [(1, 3), (1, 4), (2, 3), (2, 4)],
    }


def test_range_orders_static_members_by_their_instance_ids() -> None:
    static = [Subscriber("z", frozenset({T}), "1"), Subscriber("y", frozenset({T}), "2"), *members("a", T)]
    assert pairs(ASSIGNORS["range"](static, topics(topic(T, 3)))) == {"z": [(1, 0)], "y": [(1, 1)], "a": [(1, 2)]}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.spec("G4")
def test_members_get_partitions_of_their_rack(name: str) -> None:
    known = topics(topic(T, 6, "cbabca"))
    local = [Subscriber(f"m{rack}", frozenset({T}), None, rack) for rack in RACKS]
    assert pairs(ASSIGNORS[name](local, known)) == {
        "ma": [(1, 2), (1, 5)],
        "mb": [(1, 1), (1, 3)],
        "mc": [(1, 0), (1, 4)],
    }


@pytest.mark.spec("G4")
def test_members_that_join_one_by_one_get_partitions_of_their_rack() -> None:
    """Who was there first has all of them, and gives up what is local to others."""
    known = topics(topic(T, 6, "abccba"))
    local: list[Subscriber] = []
    for rack in "cab":
        local.append(Subscriber(f"m{rack}", frozenset({T}), None, rack))
        assignment = ASSIGNORS["uniform"](local, known)
        local = after(assignment, local)
    assert pairs(assignment) == {"ma": [(1, 0), (1, 5)], "mb": [(1, 1), (1, 4)], "mc": [(1, 2), (1, 3)]}


def test_uneven_racks_do_not_make_loads_uneven() -> None:
    known: Mapping[UUID, Topic] = topics(topic(T, 6, "aaaaaa"))
    local = [Subscriber("ma", frozenset({T}), None, "a"), Subscriber("mb", frozenset({T}), None, "b")]
    for name in ASSIGNORS:
        assert [len(some) for some in pairs(ASSIGNORS[name](local, known)).values()] == [3, 3]


def test_uniform_without_members() -> None:
    assert ASSIGNORS["uniform"]([], {}) == {}
