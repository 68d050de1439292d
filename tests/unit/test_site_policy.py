"""The policy of who may ask what: nothing that no rule allows, nothing from a file that is not exactly a policy."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy.faults import Mistake
from thebes.site.budget.policy import PolicyRule, TaskFacts
from thebes.site.budget.policy_file import PolicyFile
from thebes.site.budget.policy_text import appended, read, read_policy
from thebes.site.steward.example_files import POLICY

RULE = """
[[allow]]
requestors = ["ana", "bob"]
datasets = ["patients"]
kinds = ["query"]
epsilon = 1.5
delta = 1e-6
"""
ASKED = TaskFacts("ana", "patients", "query", "site")

names = st.sampled_from(["ana", "bob", "patients", "visits", "query", "train", "*"])
lists = st.lists(names, min_size=1, max_size=3)


def test_a_rule_is_read_as_written() -> None:
    assert read(RULE) == (
        PolicyRule(1, ("ana", "bob"), ("patients",), ("query",), Decimal("1.5"), Decimal("0.000001")),
    )


def test_no_file_allows_nothing(tmp_path: Path) -> None:
    policy = PolicyFile(tmp_path / "policy.toml")()
    assert policy.rule(ASKED) is None
    assert "everything is refused" in str(policy.trouble)


def test_the_example_allows_nothing_and_is_a_policy_once_its_signs_are_taken_away() -> None:
    assert read(POLICY) == ()
    lines = [line.removeprefix("# ") for line in POLICY.splitlines() if "=" in line or "[[" in line]
    policy = read_policy("\n".join(lines))
    (rule,), (helping,) = policy.rules, policy.helping
    assert rule.epsilon == helping.epsilon == 1
    assert helping.min_count == 100


def test_an_empty_file_is_a_policy_that_allows_nothing(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("")
    assert PolicyFile(tmp_path / "policy.toml")().rule(ASKED) is None


def test_a_changed_file_counts_at_once_and_an_unreadable_one_refuses_everything(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    policy = PolicyFile(path)
    path.write_text(RULE)
    assert policy().rule(ASKED) is not None
    path.write_text(RULE + "epsilom = 3\n")
    assert policy().rule(ASKED) is None
    assert "everything is refused" in str(policy().trouble)
    path.write_bytes(b"\xff\xfe")
    assert policy().rule(ASKED) is None
    path.write_text(RULE)
    assert policy().rule(ASKED) is not None
    path.unlink()
    assert policy().rule(ASKED) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("epsilom = 3", "line 8: rule 1, epsilom"),
        ("noise = ['nobody']", "line 8: rule 1, noise"),
        ("noise = []", "rule 1, noise"),
        ("steady = 1", "rule 1, steady"),
        ("datasets = ['x']", "TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(line: str, told: str) -> None:
    with pytest.raises(Mistake) as refused:
        read(RULE + line + "\n")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon = 1.5", ""),
        ("epsilon = 1.5", "epsilon = 0"),
        ("epsilon = 1.5", "epsilon = -1"),
        ("epsilon = 1.5", "epsilon = true"),
        ("epsilon = 1.5", "epsilon = '1.5'"),
        ("epsilon = 1.5", "epsilon = inf"),
        ("epsilon = 1.5", "epsilon = nan"),
        ("delta = 1e-6", "delta = 1"),
        ("delta = 1e-6", "delta = -0.1"),
        ('requestors = ["ana", "bob"]', "requestors = []"),
        ('requestors = ["ana", "bob"]', "requestors = [1]"),
        ('requestors = ["ana", "bob"]', 'requestors = [""]'),
        ('requestors = ["ana", "bob"]', ""),
        ("[[allow]]", "[allow]"),
        ("[[allow]]", "[[alow]]"),
        ("[[allow]]", "allow = 1"),
    ],
)
def test_a_rule_that_is_not_exactly_one_is_no_policy(old: str, new: str) -> None:
    with pytest.raises(Mistake):
        read(RULE.replace(old, new))


def test_the_first_rule_that_covers_an_ask_decides() -> None:
    rules = read(RULE + RULE.replace("1.5", "9").replace('["ana", "bob"]', '"*"'))
    asked = [TaskFacts(who, "patients", "query", "site") for who in ("ana", "carl")]
    found = [next(rule.number for rule in rules if rule.covers(facts)) for facts in asked]
    assert found == [1, 2]


def test_noise_added_by_the_coordinator_must_be_allowed_by_name(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(RULE)
    asked = TaskFacts("ana", "patients", "query", "coordinator")
    assert PolicyFile(path)().rule(asked) is None
    assert "only with noise added by the site" in PolicyFile(path)().refusal(asked)
    path.write_text(RULE + 'noise = ["site", "coordinator"]\n')
    assert PolicyFile(path)().rule(asked) is not None


@given(lists, lists, lists, st.lists(st.sampled_from(["site", "coordinator"]), min_size=1, unique=True), names, names,
       names, st.sampled_from(["site", "coordinator"]))  # fmt: skip
def test_a_rule_covers_exactly_what_all_of_its_lists_name(
    requestors: list[str], datasets: list[str], kinds: list[str], noise: list[str], who: str, what: str, how: str,
    where: str,
) -> None:  # fmt: skip
    rule = PolicyRule(1, tuple(requestors), tuple(datasets), tuple(kinds), Decimal(1), None, tuple(noise))
    expected = (
        ("*" in requestors or who in requestors)
        and ("*" in datasets or what in datasets)
        and ("*" in kinds or how in kinds)
        and where in noise
    )
    assert rule.covers(TaskFacts(who, what, how, where)) is expected


@given(st.lists(st.tuples(lists, lists, lists, st.decimals("0.001", 100, places=3)), max_size=4))
def test_rules_that_are_written_are_read_again(rules: list[tuple[list[str], list[str], list[str], Decimal]]) -> None:
    text = "# mine\n"
    for requestors, datasets, kinds, epsilon in rules:
        text = appended(text, {"requestors": requestors, "datasets": datasets, "kinds": kinds, "epsilon": epsilon})
    found = [(list(r.requestors), list(r.datasets), list(r.kinds), r.epsilon) for r in read(text)]
    assert found == rules
    assert text.startswith("# mine\n")


@given(st.text(max_size=200))
def test_whatever_stands_in_the_file_it_is_a_policy_or_a_mistake(text: str) -> None:
    with contextlib.suppress(Mistake):
        assert isinstance(read(text), tuple)


def test_a_rule_is_not_added_to_a_file_that_is_no_policy() -> None:
    with pytest.raises(Mistake):
        appended("nonsense", {"requestors": ["a"], "datasets": ["b"], "kinds": ["c"], "epsilon": 1})
