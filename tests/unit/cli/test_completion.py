"""What a shell hands over when somebody presses Tab."""

from __future__ import annotations

import pytest

from minikafka.cli.completion import join_broken_words


@pytest.mark.parametrize(
    ("pieces", "at", "words", "index"),
    [
        ("minikafka|topic|describe|ev", 3, "minikafka|topic|describe|ev", 3),
        ("minikafka|topic|describe|-b|localhost|:|9092|ev", 7, "minikafka|topic|describe|-b|localhost:9092|ev", 5),
        ("minikafka|-b|a|:|1,b|:|2|", 7, "minikafka|-b|a:1,b:2|", 3),
        ("minikafka|--dir|=|/tmp/x|topic|de", 5, "minikafka|--dir=/tmp/x|topic|de", 3),
        ("minikafka|cluster|kill|--dir|=", 4, "minikafka|cluster|kill|--dir=", 3),
        ("minikafka|topic|describe||-b|a|:|1", 3, "minikafka|topic|describe||-b|a:1", 3),
    ],
)
def test_words_that_bash_broke_are_whole_again(pieces: str, at: int, words: str, index: int) -> None:
    environment = {"COMP_WORDS": pieces.replace("|", "\n"), "COMP_CWORD": str(at)}
    join_broken_words(environment)
    assert environment == {"COMP_WORDS": words.replace("|", "\n"), "COMP_CWORD": str(index)}


def test_nothing_is_done_without_a_shell() -> None:
    environment = {"HOME": "/"}
    join_broken_words(environment)
    assert environment == {"HOME": "/"}
