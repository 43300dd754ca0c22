"""A package that is not installed is a line that says how to install it."""

from __future__ import annotations

import pytest

from minikafka.cli.extras import need


def test_a_missing_package_is_named_with_its_extra(capsys: pytest.CaptureFixture[str]) -> None:
    need("confluent-kafka", of="the demo", extra="demo")
    with pytest.raises(SystemExit):
        need("not-installed-anywhere", of="the report", extra="chaos")
    assert capsys.readouterr().err == (
        "minikafka: the report needs not-installed-anywhere, which is not installed: pip install 'minikafka[chaos]'\n"
    )
