"""Whoever writes a kind is told what is wrong with it, where, and what to do, before anything is asked with it."""

from __future__ import annotations

import importlib
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registration, registry
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.protocols import Setting
from thebes.testing.kinds import CHECKS

Written = Callable[..., str]

_WORDS = 'Words("How many say yes", "yes or no from each person, often a lie", "yes or no, often a lie")'
_SERVER = 'server: Literal["untrusted"] = "untrusted"'
#: (file, what is right, what is written instead, where it is said to be, some of what is said)
PUBLIC = {
    "nothing that is a kind": (
        "KIND:",
        "OTHER:",
        "kind.KIND",
        "the last line of kind.py says what KIND is",
    ),
    "a class instead of a kind": ("= TallyKind()", "= TallyKind", "kind.KIND", "write KIND = TallyKind()"),
    "no type": ('    type = "tally"', "    type = None", "kind.KIND.type", "lower-case letters"),
    "another type": (
        '    type = "tally"',
        '    type = "count"',
        "kind.KIND.document.type",
        'Literal["count"] = "count"',
    ),
    "no document": ("document = TallyDocument", "document = dict", "kind.KIND.document", "made from PeopleDocument"),
    "a field that every document says by itself": (
        _SERVER,
        f"{_SERVER}\n    phases: int = 3",
        "kind.KIND.document.phases",
        "something that every document says by itself (PeopleDocument.phases)",
    ),
    "a field named as a method": (
        _SERVER,
        f"{_SERVER}\n    packets: int = 3",
        "kind.KIND.document.packets",
        "give the field another name",
    ),
    "a method of the document over what is read": (
        _SERVER,
        f"{_SERVER}\n\n    def phases(self) -> int:\n        return 3",
        "kind.TallyDocument.phases",
        "is a method, and PeopleDocument.phases is read without a call; write it alike, or give yours another name",
    ),
    "what is read of the document over a method": (
        _SERVER,
        f"{_SERVER}\n\n    @property\n    def packets(self) -> int:\n        return 3",
        "kind.TallyDocument.packets",
        "is a value, and PeopleDocument.packets is called",
    ),
    "words that are text": (
        _WORDS,
        '"How many say yes"',
        "kind.KIND.words",
        "Words(title, about, ...), and is of type str",
    ),
    "a word that is none": (_WORDS, 'Words("How many", "yes or no", 3)', "kind.KIND.words.to_people", "must be text"),
    "no words": (_WORDS, 'Words("", "")', "kind.KIND.words", "a title and an about"),
    "no explanation": ("def explain(", "def explained(", "kind.KIND.explain", "Kind in thebes/tasks/protocols.py"),
    "a price without its unit": (
        "document: TallyDocument, *, unit: Unit = Unit.DEVICE",
        "document: TallyDocument",
        "kind.KIND.price",
        "takes (document), and is called with (document, *, unit), as Kind says",
    ),
}
HALVES = {
    "an owner that takes no chance": (
        "owner.py",
        "claim: Claim, *, randomness: Randomness",
        "claim: Claim",
        "owner.OWNER.contribute",
        "takes (document, ask, rows, claim), and is called with (document, ask, rows, claim, *, randomness)",
    ),
    "an owner that nobody may ask": ("owner.py", "def able(", "def willing(", "owner.OWNER.able", "Owner in thebes"),
    "an aggregator that does not hear": (
        "aggregator.py",
        "def hear(",
        "def heard(",
        "aggregator.AGGREGATOR.hear",
        "TallyAggregator needs hear",
    ),
    "an aggregator of other arguments": (
        "aggregator.py",
        "    yes = 0\n",
        "    yes = 0\n\n    def __init__(self, document: TallyDocument) -> None: ...\n",
        "aggregator.AGGREGATOR",
        "with a document and a setting",
    ),
    "what is heard under the name of what is counted": (
        "aggregator.py",
        "self.yes += int",
        "self.counts = int",
        "aggregator.TallyAggregator.hear",
        "sets self.counts, which Gathering keeps for its own work, so that phases would never end",
    ),
    "a method over what is read": (
        "aggregator.py",
        "    yes = 0\n",
        "    yes = 0\n\n    def wanted(self) -> int:\n        return 3\n",
        "aggregator.TallyAggregator.wanted",
        "is a method, and Gathering.wanted is read without a call",
    ),
    "what is read over a method": (
        "aggregator.py",
        "    yes = 0\n",
        "    yes = 0\n\n    @property\n    def partition(self) -> int:\n        return 0\n",
        "aggregator.TallyAggregator.partition",
        "is a value, and Gathering.partition is called",
    ),
    "a method under the name of what is counted": (
        "aggregator.py",
        "    yes = 0\n",
        "    yes = 0\n\n    def counts(self) -> int:\n        return 3\n",
        "aggregator.TallyAggregator.counts",
        "sets self.counts, which Gathering keeps for its own work",
    ),
    "a class body that starts where the base class stands": (
        "aggregator.py",
        "    yes = 0\n",
        "    yes = 0\n    state = 0\n",
        "aggregator.TallyAggregator.state",
        "sets self.state",
    ),
}


def test_a_task_without_end_that_a_server_is_trusted_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(Path(__file__).parent / "daily", tmp_path / "trusting")
    for path in (tmp_path / "trusting").glob("*.py"):
        path.write_text(path.read_text().replace("from daily.", "from trusting."))
    kind = tmp_path / "trusting" / "kind.py"
    kind.write_text(kind.read_text().replace(_SERVER, 'server: Literal["trusted", "untrusted"] = "untrusted"'))
    importlib.invalidate_caches()
    with pytest.raises(Mistake, match='may say "trusted" of a task without end') as refused:
        registration.aggregator_of("trusting")
    assert refused.value.argument == "trusting.kind.KIND.document.server"


@pytest.mark.parametrize("wrong", PUBLIC.values(), ids=PUBLIC)
@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
def test_a_mistake_in_the_public_half_is_named_when_the_kind_is_registered(
    written: Written, wrong: tuple[str, str, str, str]
) -> None:
    right, instead, where, told = wrong
    package, before = written("kind.py", right, instead), registry.types()
    with pytest.raises(Mistake, match=re.escape(told)) as refused:
        registry.register(package)
    assert refused.value.argument == f"{package}.{where}"
    assert registry.types() == before


@pytest.mark.parametrize("wrong", HALVES.values(), ids=HALVES)
def test_a_mistake_in_a_half_is_named_where_it_is_first_used(
    written: Written, wrong: tuple[str, str, str, str, str]
) -> None:
    file, right, instead, where, told = wrong
    package = written(file, right, instead)
    setting = Setting(unit=Unit.DEVICE, randomness=seeded_for_simulation(1))
    with registry.registered(package):
        document = registry.check({"type": "tally", "epsilon": 1.0, "featurizer": "SELECT y FROM profile.example"})
        with pytest.raises(Mistake, match=re.escape(told)) as refused:
            _ = registry.owner(document) if file == "owner.py" else registry.aggregator(document, setting)
    assert refused.value.argument == f"{package}.{where}"


#: (the file that is added, what stands in it, where it is said to be, some of what is said)
MISNAMED = {
    "a form that is called Form": (
        "form.py",
        "from thebes.tasks.form import Form as Made\nForm = Made()",
        "form.FORM",
        "is missing: form.py must say what FORM is; it has Form, which nobody looks for",
    ),
    "a form that is none": ("form.py", "FORM = {}", "form.FORM", "must be a Form, and is of type dict"),
    "a hint that nobody can draw": (
        "form.py",
        "from thebes.tasks.form import Form, Hint\nFORM = Form(fields={'epsilon': Hint(lines='many')})",
        "form.FORM.fields['epsilon']",
        "must have int as lines, not str",
    ),
    "a hint in no section": (
        "form.py",
        "from thebes.tasks.form import Form, Hint\nFORM = Form(fields={'epsilon': Hint(place='below')})",
        "form.FORM.fields['epsilon']",
        "must have as place one of answer, data, trust, price, asker",
    ),
    "a choice without words": (
        "form.py",
        "from thebes.tasks.form import Form, PartChoice\n"
        "FORM = Form(fields={'way': PartChoice(label='', parts={'a': 'epsilon'}, told={})})",
        "form.FORM.fields['way']",
        "must have parts, each with words in told",
    ),
    "a hint at nothing": (
        "form.py",
        "from thebes.tasks.form import Form, Hint\nFORM = Form(fields={'min_counts': Hint()})",
        "form.FORM.fields['min_counts']",
        "is about min_counts, which no document of this kind has; it has min_count",
    ),
    "a choice between no parts": (
        "form.py",
        "from thebes.tasks.form import Form, PartChoice\n"
        "FORM = Form(fields={'way': PartChoice(label='', parts={'a': 'nowhere'}, told={})})",
        "form.FORM.fields['way']",
        "is about nowhere, which no document of this kind has",
    ),
    "a rehearsal in small letters": (
        "rehearsal.py",
        "rehearsal = None",
        "rehearsal.REHEARSAL",
        "it has rehearsal, which nobody looks for",
    ),
    "half a view": ("view.py", "def sections(release, document): ...", "view.table", "view.py must say what table is"),
}


@pytest.mark.parametrize("wrong", MISNAMED.values(), ids=MISNAMED)
def test_a_misnamed_part_of_an_optional_file_is_named(written: Written, wrong: tuple[str, str, str, str]) -> None:
    file, text, where, told = wrong
    package = written(file, "", text)
    with pytest.raises(Mistake, match=re.escape(told)) as refused:
        registry.register(package)
    assert refused.value.argument == f"{package}.{where}"


@pytest.mark.parametrize(
    ("file", "instead", "meant"),
    [
        ("forms.py", "", "form"),
        ("rehearse.py", "", "rehearsal"),
        ("VIEW.py", "", "view"),
        ("re_lease.py", "", "release"),
        ("crowds.py", "", "crowd"),
    ],
)
def test_a_file_that_is_nearly_called_as_an_optional_one_is_told(
    written: Written, file: str, instead: str, meant: str
) -> None:
    package = written(file, "", instead)
    said = re.escape(f"{package}.{file[:-3]} is looked for by nobody; if it is meant to be {package}.{meant}, call it")
    with pytest.warns(RuntimeWarning, match=said), registry.registered(package):
        pass


@pytest.mark.parametrize(("right", "wrong"), [("samples", "sample"), ("scene", "scenes"), ("audit", "audits")])
def test_a_file_of_the_example_that_is_misnamed_is_told(
    written: Written, tmp_path: Path, right: str, wrong: str
) -> None:
    package = written()
    (tmp_path / package / f"{right}.py").rename(tmp_path / package / f"{wrong}.py")
    said = re.escape(f"{package}.{wrong} is looked for by nobody; if it is meant to be {package}.{right}, call it so")
    with pytest.warns(RuntimeWarning, match=said), registry.registered(package):
        pass


def test_a_method_that_is_nearly_called_as_an_optional_one_is_told(written: Written) -> None:
    package = written("kind.py", "    def subject(", "    def choices(self, document): ...\n\n    def subject(")
    with pytest.warns(RuntimeWarning, match="KIND.choices is looked for by nobody"), registry.registered(package):
        pass
    package = written(
        "owner.py", "    def able(", "    def legibles(self, document, contributions): ...\n\n    def able("
    )
    with pytest.warns(RuntimeWarning, match="OWNER.legibles is looked for by nobody"):
        registration.owner_of(package)


def test_a_half_that_is_put_in_the_place_of_another_is_used_and_looked_at(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remember what was looked at, and not what was found: a test that puts a half in place must get it."""
    package = written()
    for half, name, found in (
        ("owner", "OWNER", registration.owner_of),
        ("aggregator", "AGGREGATOR", registration.aggregator_of),
    ):
        module = importlib.import_module(f"{package}.{half}")
        first = found(package)
        other = type("Other", (first if isinstance(first, type) else type(first),), {})
        monkeypatch.setattr(module, name, other if isinstance(first, type) else other())
        assert found(package) is getattr(module, name)
        monkeypatch.setattr(module, name, object)
        with pytest.raises(Mistake):
            found(package)
        monkeypatch.undo()
        assert found(package) is first


@pytest.mark.parametrize("half", ["aggregator", "owner"])
def test_a_kind_with_half_of_it_missing_is_not_registered(written: Written, tmp_path: Path, half: str) -> None:
    package = written()
    (tmp_path / package / f"{half}.py").unlink()
    with pytest.raises(Mistake, match=f"Write {half}.py with {half.upper()} in it") as refused:
        registry.register(package)
    assert refused.value.argument == f"{package}.{half}"


def test_two_kinds_of_one_name_are_told_apart_when_the_second_is_registered(written: Written) -> None:
    first, second = written(), written()
    with registry.registered(first):
        assert registry.register(first) == "tally", "the same again changes nothing"
        with pytest.raises(Mistake, match=f"that is the kind in {first} already; name yours differently"):
            registry.register(second)
        assert registry.packages()["tally"] == first
    assert "tally" not in registry.types()


def test_a_package_that_is_not_there_is_no_kind() -> None:
    with pytest.raises(Mistake, match="cannot be imported as a package"):
        registry.register("thebes_nowhere")


@pytest.mark.few(3)
@pytest.mark.parametrize("type_", registry.types())
def test_every_kind_that_is_shipped_passes_the_look(type_: str) -> None:
    package = registry.packages()[type_]
    with warnings.catch_warnings():  # of what other tests left to the collector of garbage nothing is said here
        warnings.simplefilter("error")
        assert registration.looked_at(package) == type_
        registration.aggregator_of(package)
        registration.owner_of(package)


#: what no reading of a class shows, and the suite does: (file, what is right, what is written instead, what is said)
CAUGHT = {
    "half the price": (
        "owner.py",
        "consume(epsilon=document.epsilon",
        "consume(epsilon=document.epsilon / 2",
        "the ledger would forget the rest",
    ),
    "noise before it is paid for": (
        "owner.py",
        "        claim.consume(",
        "        randomness.words(1)\n        claim.consume(",
        "call claim.consume first",
    ),
    "one yes for everybody's ability": ("owner.py", "np.ones(rows.people, dtype=bool)", "True", "for each person"),
    "half of the people": (
        "owner.py",
        "        said, missing",
        "        rows = rows.select(np.arange((rows.people + 1) // 2))\n        said, missing",
        "some who can contribute do not",
    ),
    "no notes": ("aggregator.py", "            notes=self.notes,\n", "", "notes=self.notes"),
    "a bar of something else": (
        "aggregator.py",
        "[1]) * people for end",
        "[1]) for end",
        "does not hold its own value",
    ),
    "a price that is a number": (
        "kind.py",
        "return Price(document.epsilon, document.delta, unit)",
        "return document.epsilon",
        "its price returned float instead of Price",
    ),
    "a check that reads nothing": (
        "kind.py",
        "return read_as(TallyDocument, document)",
        "return dict(document)",
        "its check returned dict instead of TallyDocument",
    ),
    "a subject that is forgotten": (
        "kind.py",
        'return "How many say yes"',
        "...",
        "its subject returned NoneType instead of str",
    ),
    "a conclusion that is no release": (
        "aggregator.py",
        "return Release(float(found.value[1]) * people, certificate, intervals)",
        "return {'value': float(found.value[1]) * people}",
        "TallyAggregator.conclude: must return a Release, and returned dict",
    ),
    "an error bar that is a pair": (
        "aggregator.py",
        "level: Interval(level, *(float(np.asarray(end)[1]) * people for end in (bar.low, bar.high)))",
        "level: (0.0, 1.0)",
        "TallyAggregator.conclude: must give each error bar as an Interval, and gave tuple",
    ),
    "an error bar of two for one answer": (
        "aggregator.py",
        "*(float(np.asarray(end)[1]) * people",
        "*(np.asarray(end) * people",
        "TallyAggregator.conclude: gave an error bar of 2 ends for 1 answers",
    ),
    "a contribution that is a dictionary": (
        "owner.py",
        'return Contributions(ask.part, rows.people, {"yes": document.mechanism.perturb(truth, randomness)})',
        'return {"yes": truth}',
        "TallyOwner.contribute must return Contributions, and returned dict",
    ),
    "diagnostics that never come": ("kind.py", "self.diagnostics is not None", "False", "refuse them by name"),
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("file", "right", "instead", "said"), CAUGHT.values(), ids=list(CAUGHT))
def test_the_suite_sees_what_only_a_run_shows(written: Written, file: str, right: str, instead: str, said: str) -> None:
    name = written(file, right, instead)
    told = []
    with registry.registered(name):
        (sample,) = registry.samples("tally")
        for check in CHECKS:
            try:
                check(sample)
            except (AssertionError, Mistake, KindFailed) as error:
                told.append(str(error))
    assert [each for each in told if said in each]
