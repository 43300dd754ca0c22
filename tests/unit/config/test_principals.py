"""Rules that make users of distinguished names: the examples of KIP-371, and what is none."""

from __future__ import annotations

import pytest

from minikafka.config.principals import PrincipalRules

NAMES = [
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=serviceuser,OU=ServiceUsers,O=Unknown,C=DE", "serviceuser"),
    ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "CN=adminUser,OU=Admin,O=Unknown", "adminuser@admin"),
    ("RULE:^cn=(.*?),ou=(.*?)$/$1@$2/U,DEFAULT", "cn=kafka1,ou=Ops", "KAFKA1@OPS"),
    ("RULE:^CN=(.*?)$/$1/,RULE:^O=.*$/org/", "O=x", "org"),
    ("RULE:^CN=(.*?)$/$1/", "O=x", None),
    ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
    ("RULE:CN=(a)/$1-$2-$10/", "CN=a", "a-$2-a0"),
    ("RULE:CN=(\\w+)\\/x/$0/", "CN=a/x", "CN=a/x"),
    (" RULE:^CN=([^,]+),.*/$1/ , DEFAULT ", "O=x", "O=x"),
]


@pytest.mark.parametrize(("rules", "name", "user"), NAMES)
def test_the_first_rule_that_fits_gives_the_user(rules: str, name: str, user: str | None) -> None:
    assert PrincipalRules(rules.strip()).user_of(name) == user


HUGE, DEEP = "RULE:a{99999999999}/b/", f"RULE:{'(' * 3_000}{')' * 3_000}/b/"


@pytest.mark.parametrize(
    "rules", ["default", "RULE:a", "RULE:a/b", "RULE:a/b/X", "DEFAULT RULE:a/b/", "RULE:(/b/", HUGE, DEEP]
)
def test_what_is_no_list_of_rules(rules: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|regular"):
        PrincipalRules(rules)
