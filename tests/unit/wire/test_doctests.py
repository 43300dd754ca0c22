from __future__ import annotations

import doctest

from minikafka.wire import codec


def test_the_example_in_the_codec_works() -> None:
    assert doctest.testmod(codec) == (0, 3)
