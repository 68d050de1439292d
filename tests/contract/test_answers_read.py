"""An answer of every kind reads as a table, in a notebook and as a picture, whichever kind it is of."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.privacy.plain_text import plain_text
from thebes.tasks import registry
from thebes.tasks.bounded.release import RowsRelease
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.samples import Sample

SAMPLES = [sample for type_ in registry.types() for sample in registry.samples(type_)]
OF_NUMBERS = ["value", "low", "high", "level", "sites"]


@cache
def answered(name: str) -> Release:
    (sample,) = [each for each in SAMPLES if each.name == name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(sample, Sample):
            return thebes.simulate(sample.document, sample.people, seed=1)
        return thebes.simulate(sample.document, sample.sites, schema=sample.schema, seed=1)


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))


@pytest.mark.few(12, slow=30)
@pytest.mark.parametrize("name", [sample.name for sample in SAMPLES])
def test_a_release_reads_as_a_table_everywhere(name: str) -> None:
    release = answered(name)
    columns = release.as_columns()
    assert columns
    assert len({len(column) for column in columns.values()}) == 1
    frame = release.to_frame()
    assert list(frame.columns) == list(columns)
    assert release.to_arrow().column_names == list(columns)
    polars = release.to_frame("polars")
    assert polars.columns == list(columns)
    assert polars.height == len(frame)
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    assert all(same(back.as_columns()[column], values) for column, values in columns.items())
    numbers = list(release.value.values()) if isinstance(release.value, Mapping) else [release.value]
    if all(isinstance(one, (int, float)) for one in numbers):
        assert list(columns)[-5:] == OF_NUMBERS
        assert frame["value"].tolist() == numbers
        bar = release.interval() if release.intervals else None
        assert all(math.isnan(low) is (bar is None) for low in columns["low"])
        assert all(level == 0.95 for level in columns["level"] if bar is not None)
        coverage = release.extra.get("coverage")
        assert set(columns["sites"]) == {None if coverage is None else ", ".join(coverage["answered"])}
    assert len(repr(release)) <= 120
    assert len(repr(release.certificate)) <= 120
    html = release._repr_html_()
    assert release.certificate.mechanism.split()[0] in html
    assert "<details>" in html
    assert html.count("<svg") <= 1
    assert "<script" not in html


def test_keys_of_groups_are_columns_and_ends_of_bins_are_numbers() -> None:
    grouped = answered("query-mean-age-['sex', 'ill']").to_frame()
    assert list(grouped.columns)[:2] == ["sex", "ill"]
    assert grouped["sex"].tolist() == ["female", "female", "male", "male"]
    assert grouped["ill"].tolist() == [False, True, False, True]
    assert set(grouped["sites"]) == {"aachen, bonn, cologne"}
    several = answered("query-several-['sex', 'ill']")
    table = several.to_frame().set_index(["sex", "ill", "statistic"])["value"]
    for name, number in several.value.items():
        sex, ill, statistic = name.split(", ")
        assert table[(sex, ill == "True", statistic)] == number
    bins = answered("query-histogram-age-[30, 45.5, 60]").to_frame()
    assert bins["from"].tolist() == [18, 30, 45.5, 60]
    assert bins["to"].tolist() == [30, 45.5, 60, 90]
    equal = answered("basic-histogram-over-a-range").to_frame()
    assert equal["from"].tolist() == [12.0 * place for place in range(10)]


def test_equal_bins_have_their_exact_ends_although_names_have_few_digits() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        document = {"aggregator": "histogram", "bins": 3, "bounds": {"x": {"type": "range", "low": 0.0, "high": 1.0}}}
        told = {"type": "basic", "featurizer": "SELECT x FROM a.b", "epsilon": 1.0, "min_count": 1, **document}
        release = thebes.simulate(told, {"x": [0.1, 0.5, 0.9]}, seed=1)
    assert list(release.value) == ["0 to 0.333333", "0.333333 to 0.666667", "0.666667 to 1"]
    assert release.to_frame()["to"].tolist() == [1 / 3, 2 / 3, 1.0]


def test_declared_values_that_look_like_bins_stay_what_they_are() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bounds = {"x": {"type": "set", "values": ["1 to 2", "2 to 3"]}}
        told = {"type": "basic", "featurizer": "SELECT x FROM a.b", "aggregator": "histogram", "bounds": bounds}
        release = thebes.simulate({**told, "epsilon": 1.0, "min_count": 1}, {"x": ["1 to 2", "2 to 3"]}, seed=1)
    assert release.to_frame()["x"].tolist() == ["1 to 2", "2 to 3"]


def test_a_group_that_is_called_script_is_text() -> None:
    bad = '<script>alert("1")</script>'
    release = answered("basic-histogram")
    hostile = Release({bad: 3.0, "b\x1b[2J": 2.0}, release.certificate, release.intervals)
    html = hostile._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html + repr(hostile)
    assert len(repr(hostile)) <= 120
    assert hostile.to_frame()["key"].tolist()[0] == bad


def test_rows_refuse_an_interval_and_name_what_has_one() -> None:
    release = answered("bounded-split")
    assert isinstance(release, RowsRelease)
    with pytest.raises(Mistake, match=r'mean\("COLUMN"\)'):
        release.interval()


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    release = answered("basic-mean")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Mistake, match="pip install polars"):
        release.to_frame("polars")
    with pytest.raises(Mistake, match='must be "pandas"'):
        release.to_frame("excel")  # type: ignore[call-overload]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(Mistake, match="pip install matplotlib"):
        release.plot()


@pytest.mark.few(5, slow=30)
@pytest.mark.parametrize("name", [sample.name for sample in SAMPLES])
def test_a_release_draws_itself_into_axes(name: str) -> None:
    from matplotlib.figure import Figure

    release = answered(name)
    ax = Figure().subplots()
    assert release.plot(ax) is ax
    assert ax.patches or ax.lines


def test_a_picture_shows_every_number_with_its_bar() -> None:
    release = answered("query-mean-age-['sex', 'ill']")
    points = {point.name: point for point in release.points()}
    bar = release.interval()
    assert bar is not None
    assert [point.value for point in points.values()] == list(release.value.values())
    assert [point.low for point in points.values()] == bar.low.tolist()  # type: ignore[union-attr]
    html = plain_text(release._repr_html_())
    assert all(name in html for name in points)
    assert len(re.findall('<circle class="dot"', html)) == len(points)
