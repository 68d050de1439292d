"""Made-up people: nobody real, everything plausible, the same for the same seed.

A small Bayesian network, drawn from its roots down: place -> age, zip; age -> gender; age, place -> education; age,
education, zip -> income; age, gender, education -> applications used and sites visited. The relations are inventions
to try Thebes with, not findings. People are drawn, not noise: nothing here protects anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.simulation.tables import PERSON

Column = NDArray[Any]
Columns = dict[str, Column]
#: what the collectors of one person send: {app: {"tables": declaration, "rows": {table: [row, ...]}}}
Belongings = dict[str, dict[str, Any]]

DAYS = 7
MONDAY = np.datetime64("2026-01-05T00:00:00")  #: the first of the days, in UTC
MOST = 1_000_000  #: people at once

GENDERS = ("Female", "Male")
#: city, state, zip codes from the cheapest to the dearest, share of the people, years of age and of school more
PLACES = (
    ("Boston", "MA", ("02124", "02128", "02116"), 0.30, -2.0, 0.8),
    ("Cambridge", "MA", ("02141", "02139", "02138"), 0.10, -7.0, 2.2),
    ("Worcester", "MA", ("01610", "01604", "01609"), 0.16, 0.0, -0.4),
    ("Providence", "RI", ("02907", "02908", "02906"), 0.15, -1.0, 0.0),
    ("Hartford", "CT", ("06112", "06106", "06105"), 0.11, 1.0, -0.8),
    ("New Haven", "CT", ("06519", "06513", "06511"), 0.09, -4.0, 1.0),
    ("Portland", "ME", ("04102", "04103", "04101"), 0.06, 4.0, 0.2),
    ("Burlington", "VT", ("05408", "05403", "05401"), 0.03, 3.0, 0.6),
)
APPLICATIONS = {
    "social": ("Agora", "Chorus", "Pigeon"),
    "video": ("Amphitheatre", "Shadowplay"),
    "games": ("Labyrinth", "Knucklebones", "Senet"),
    "news": ("Herald", "Tablet"),
    "work": ("Abacus", "Stylus", "Papyrus"),
}
#: domain -> how frequent, and how that changes with 10 years of age, for men (and as much less for women), with a year
#: of school, and for parents' ages
SITES: dict[str, tuple[float, float, float, float, float]] = {
    "search.example": (2.0, 0.0, 0.0, 0.0, 0.0),
    "video.example": (1.5, -0.40, 0.1, 0.0, 0.0),
    "social.example": (1.6, -0.55, -0.1, 0.0, 0.0),
    "news.example": (1.0, 0.40, 0.0, 0.05, 0.0),
    "weather.example": (0.3, 0.30, 0.0, 0.0, 0.0),
    "bank.example": (0.2, 0.15, 0.0, 0.0, 0.0),
    "papers.example": (-0.4, 0.0, 0.0, 0.25, 0.0),
    "sports.example": (0.4, 0.0, 0.6, 0.0, 0.0),
    "motors.example": (0.0, 0.05, 0.7, -0.03, 0.0),
    "games.example": (0.0, -0.50, 0.3, 0.0, 0.0),
    "fashion.example": (0.2, -0.15, -0.7, 0.0, 0.0),
    "recipes.example": (0.4, 0.15, -0.5, 0.0, 0.3),
    "parents.example": (-0.6, 0.0, -0.3, 0.0, 1.5),
}


def _declared(description: str, **columns: tuple[str, str]) -> dict[str, Any]:
    described = {name: {"type": type_, "description": text} for name, (type_, text) in columns.items()}
    return {"description": description, "columns": described}


#: what each collector declares before it inserts
DECLARATIONS: dict[str, dict[str, Any]] = {
    "profile": {
        "demographics": _declared(
            "Who this (made-up) person is",
            age=("float", "years"),
            gender=("string", "Female or Male"),
            income=("float", "of a year, in thousands"),
            education=("integer", "years at school"),
            city=("string", "where the person lives"),
            state=("string", "two letters"),
            zip=("string", "five digits"),
        ),
        "example": _declared(
            "Two inputs, a label and a number to predict from them",
            x0=("float", "between about -3 and 3"),
            x1=("float", "between about -3 and 3"),
            y=("integer", "1 where x0 + x1 is likely to be positive, else 0"),
            z=("float", "2 x0 - x1 and some noise"),
        ),
        "pets": _declared("Animals of the (made-up) person", species=("string", "cat or dog"), age=("float", "years")),
    },
    "screen": {
        "events": _declared(
            "When an application came to the front and left it",
            at=("timestamp", "in UTC"),
            event=("string", "opened or closed"),
            application=("string", "name"),
        ),
        "types": _declared(
            "What kind of application each one is", application=("string", "name"), type=("string", "social, work, ...")
        ),
    },
    "browser": {
        "visits": _declared(
            "Sites visited", at=("timestamp", "in UTC"), domain=("string", "name of the site, without the page")
        ),
    },
}


@dataclass(frozen=True)
class People(Sequence[Belongings]):
    """Each person as their collectors send them; `columns` is everybody at once, as `thebes.simulate` reads them."""

    columns: Mapping[str, Columns]  #: "collector.table" -> columns, with `person_id`, rows sorted by it
    size: int
    _starts: dict[str, NDArray[np.intp]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ends = np.arange(self.size + 1)
        starts = {name: np.searchsorted(columns[PERSON], ends) for name, columns in self.columns.items()}
        object.__setattr__(self, "_starts", starts)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> Belongings: ...

    @overload
    def __getitem__(self, place: slice) -> list[Belongings]: ...

    def __getitem__(self, place: int | slice) -> Belongings | list[Belongings]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self.size))]
        if not -self.size <= place < self.size:
            raise IndexError(place)
        mine = place % self.size
        return {
            app: {"tables": tables, "rows": {table: self._rows(f"{app}.{table}", mine) for table in tables}}
            for app, tables in DECLARATIONS.items()
        }

    def _rows(self, table: str, place: int) -> list[dict[str, Any]]:
        mine = slice(self._starts[table][place], self._starts[table][place + 1])
        columns = {name: column[mine].tolist() for name, column in self.columns[table].items() if name != PERSON}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def population(n: int, seed: int) -> People:
    """`n` made-up people; the same `n` and `seed` always give the same people."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST:
        raise Mistake("n", f"must be a whole number from 1 to {MOST}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Mistake("seed", "must be a whole number, 0 or more")
    return _Draw(n, np.random.Generator(np.random.PCG64(seed))).people()


class _Draw:
    """One draw of the whole network; every node is drawn once, from the nodes it names."""

    def __init__(self, n: int, draw: np.random.Generator) -> None:
        self.n, self.draw = n, draw

    def people(self) -> People:
        each = {PERSON: np.arange(self.n)}
        tables = {
            "profile.demographics": {**each, **self.demographics},
            "profile.example": {**each, **self.example()},
            "profile.pets": {**each, **self.pets()},
            "screen.events": self.screen(),
            "screen.types": self.types(),
            "browser.visits": self.visits(),
        }
        return People(tables, self.n)

    @cached_property
    def demographics(self) -> Columns:
        draw, n = self.draw, self.n
        place = draw.choice(len(PLACES), n, p=[p[3] for p in PLACES])
        quarter = draw.choice(3, n, p=[0.4, 0.4, 0.2])
        older, schooled = (np.array([p[i] for p in PLACES])[place] for i in (4, 5))
        age = np.clip(18 + 74 * draw.beta(1.5, 2.4, n) + older, 18, 95).round()
        man = draw.random(n) < 0.5 - 0.004 * np.maximum(age - 65, 0)
        education = np.clip(draw.normal(13.6 + schooled - 0.04 * (age - 45), 2.0), 8, 21).round()
        education = np.minimum(education, age - 6)
        working = 0.028 * np.minimum(age - 18, 35) - 0.02 * np.maximum(age - 66, 0)
        income = np.exp(draw.normal(2.1 + 0.09 * education + working + np.array([-0.2, 0.05, 0.4])[quarter], 0.25))
        return {
            "age": age,
            "gender": np.array(GENDERS, dtype=object)[man.astype(int)],
            "income": income.round(1),
            "education": education.astype(int),
            "city": np.array([p[0] for p in PLACES], dtype=object)[place],
            "state": np.array([p[1] for p in PLACES], dtype=object)[place],
            "zip": np.array([p[2] for p in PLACES], dtype=object)[place, quarter],
        }

    @property
    def _man(self) -> NDArray[np.bool_]:
        man: NDArray[np.bool_] = self.demographics["gender"] == "Male"
        return man

    def example(self) -> Columns:
        draw, n = self.draw, self.n
        x0, x1 = draw.normal(0, 1, n), draw.normal(0, 1, n)
        y = draw.random(n) < 1 / (1 + np.exp(-3 * (x0 + x1)))
        return {"x0": x0, "x1": x1, "y": y.astype(int), "z": 2 * x0 - x1 + draw.normal(0, 0.2, n)}

    def pets(self) -> Columns:
        age = self.demographics["age"]
        cat = self.draw.random(self.n) < np.clip(0.45 + 0.004 * (age - 45), 0.2, 0.8)
        years = np.clip(self.draw.gamma(2.0, 2.5, self.n), 0, 20).round(1)
        return {"species": np.where(cat, "cat", "dog").astype(object), "age": years}

    def screen(self) -> Columns:
        """Sessions of about an hour; each is a row where it begins and one where it ends."""
        draw, who = self.draw, self.demographics
        age, young = who["age"], np.exp(-(who["age"] - 18) / 25)
        hours = {  # of a day
            "social": 2.6 * young + 0.2,
            "video": 0.9 + 0.8 * young + 0.6 * (age > 66),
            "games": np.where(self._man, 1.6, 0.8) * young + 0.1,
            "news": 0.1 + 0.016 * (age - 18),
            "work": np.where(age < 67, 0.28, 0.04) * (who["education"] - 8),
        }
        owner, start, length, app = [], [], [], []
        for type_, names in APPLICATIONS.items():
            times = draw.poisson(hours[type_] * draw.gamma(5.0, 0.2, self.n) * DAYS)
            sessions = int(times.sum())
            owner.append(np.repeat(np.arange(self.n), times))
            start.append(self._moments(sessions))
            length.append(np.clip(draw.gamma(2.0, 1800.0, sessions), 30, 4 * 3600).astype(int))
            app.append(np.array(names, dtype=object)[draw.integers(0, len(names), sessions)])
        person, begin, name = np.concatenate(owner), np.concatenate(start), np.concatenate(app)
        end = begin + np.concatenate(length)
        return _in_time(
            np.concatenate([person, person]),
            np.concatenate([begin, end]),
            event=np.repeat(np.array(["opened", "closed"], dtype=object), len(person)),
            application=np.concatenate([name, name]),
        )

    def types(self) -> Columns:
        names = [(name, type_) for type_, names in APPLICATIONS.items() for name in names]
        application, type_ = (np.tile(np.array(column, dtype=object), self.n) for column in zip(*names, strict=True))
        return {PERSON: np.repeat(np.arange(self.n), len(names)), "application": application, "type": type_}

    def visits(self) -> Columns:
        draw, who = self.draw, self.demographics
        age = who["age"]
        base, by_age, by_man, by_school, by_child = np.array(list(SITES.values())).T
        causes = np.stack(
            [(age - 45) / 10, np.where(self._man, 1, -1), who["education"] - 13, (age > 24) & (age < 46)], 1
        )
        liking = (
            base + causes @ np.stack([by_age, by_man, by_school, by_child]) + draw.normal(0, 0.4, (self.n, len(SITES)))
        )
        share = np.exp(liking)
        reach = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)[:, :-1]
        person = np.repeat(np.arange(self.n), 5 + draw.poisson(40 * np.exp(-np.maximum(age - 40, 0) / 60)))
        site = (reach[person] < draw.random(len(person))[:, None]).sum(axis=1)
        return _in_time(person, self._moments(len(person)), domain=np.array(list(SITES), dtype=object)[site])

    def _moments(self, count: int) -> NDArray[np.int64]:
        """Seconds since `MONDAY`, between breakfast and bedtime, mostly in the evening."""
        of_day = 7 * 3600 + 15 * 3600 * self.draw.beta(2.0, 1.3, count)
        return self.draw.integers(0, DAYS, count) * 86_400 + of_day.astype(np.int64)


def _in_time(person: Column, seconds: Column, **columns: Column) -> Columns:
    """Rows sorted by person and time. A time is text as a store keeps it."""
    order = np.lexsort((seconds, person))
    moments = np.char.replace((MONDAY + seconds[order]).astype(str), "T", " ").astype(object)
    return {PERSON: person[order], "at": moments, **{name: column[order] for name, column in columns.items()}}
