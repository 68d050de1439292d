"""Real data sets with public bounds: wine, cancer, diabetes (from scikit-learn), housing, and two tables of people,
Adult and OULAD; and made-up people who stand in for them where they are absent.

Bounds are constants: the documented least and greatest value of a column, rounded outward to two digits.
All but scikit-learn's are read from the folder named by THEBES_DATA and are absent where that folder is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.checksums import is_published
from thebes.privacy.faults import Mistake

Pair = tuple[float, float]
DAY = 42  #: of a course: what is asked about OULAD is asked then


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows, target, column names, and public bounds by column index (the target's under "y")."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    columns: tuple[str, ...]
    bounds: dict[int | str, Pair]

    @property
    def classes(self) -> tuple[int, ...] | None:
        """The labels there are, as documented; None where the target is a number."""
        return {"wine": (0, 1, 2), "cancer": (0, 1)}.get(self.name)

    @property
    def bounds_by_name(self) -> dict[str, Pair]:
        return {key if isinstance(key, str) else self.columns[key]: pair for key, pair in self.bounds.items()}


def wine() -> Dataset:
    """178 wines of three growers, 13 columns; label 0, 1 or 2."""
    from sklearn.datasets import load_wine

    return _bundled("wine", load_wine(), _WINE)


def cancer() -> Dataset:
    """569 breast tumours, 30 columns; label 0 (malignant) or 1."""
    from sklearn.datasets import load_breast_cancer

    return _bundled("cancer", load_breast_cancer(), _CANCER)


def diabetes() -> Dataset:
    """442 patients, 10 columns; target: progression after a year."""
    from sklearn.datasets import load_diabetes

    return _bundled("diabetes", load_diabetes(), _DIABETES, target=(25.0, 346.0))


def housing() -> Dataset | None:
    """20,640 Californian districts, 8 columns; target: median house value in 100,000 dollars. None where absent."""
    held = opened("california_housing/cal_housing.csv.gz")
    if held is None:
        return None
    import pandas as pd

    raw = pd.read_csv(held, compression="gzip")
    columns = {
        "MedInc": raw["median_income"],
        "HouseAge": raw["housing_median_age"],
        "AveRooms": raw["total_rooms"] / raw["households"],
        "AveBedrms": raw["total_bedrooms"] / raw["households"],
        "Population": raw["population"],
        "AveOccup": raw["population"] / raw["households"],
        "Latitude": raw["latitude"],
        "Longitude": raw["longitude"],
    }
    X = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    y = np.asarray(raw["median_house_value"], dtype=np.float64) / 100_000
    return Dataset("housing", X, y, tuple(columns), _numbered(_HOUSING, tuple(columns), (0.0, 5.0)))


def made_up_housing() -> Dataset:
    """2,000 districts whose houses' worth follows from evenly spread columns, but for chance. Nothing that is learned
    from them says anything about any house."""
    draw = np.random.default_rng(0)  # made-up districts, not noise
    low, high = np.array(list(_HOUSING.values())).T
    shares = draw.random((2000, len(low)))
    worth = 1.5 + shares @ np.array((3.0, 0.5, 0.8, -0.4, 0.0, -0.6, -1.0, -0.7)) + draw.normal(0, 0.5, len(shares))
    bounds = _numbered(_HOUSING, tuple(_HOUSING), (0.0, 5.0))
    return Dataset("housing", low + shares * (high - low), np.clip(worth, 0, 5), tuple(_HOUSING), bounds)


@dataclass(frozen=True, slots=True)
class People:
    """One row for each person, by column, to learn `label` from; `bounds` is public knowledge as a document has it."""

    name: str
    train: dict[str, NDArray[Any]]
    test: dict[str, NDArray[Any]]
    label: str
    bounds: dict[str, dict[str, Any]]
    made_up: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(column for column in self.bounds if column != self.label)


def people(name: str) -> People:
    """`adult` or `oulad`; where it is absent, made-up people with the same columns, who say that they are."""
    found = {"adult": adult, "oulad": oulad}[name]()
    return found if found is not None else made_up(name)


def made_up(name: str) -> People:
    """9,000 people with the columns of a table: every second value is the usual one, and the label follows from four
    of the columns. Nothing that is learned from them says anything about anybody."""
    label, bounds = {"adult": ("income", _ADULT), "oulad": ("withdrawn", _OULAD)}[name]
    draw, size = np.random.default_rng(0), 9000  # made-up people, not noise
    table: dict[str, NDArray[Any]] = {}
    logit = np.full(size, -1.6)
    features = [column for column in bounds if column != label]
    for place, column in enumerate(features):
        bound = bounds[column]
        usual = draw.random(size) < 0.5
        if bound["type"] == "set":
            chosen = np.where(
                usual, bound["values"].index(bound["default"]), draw.integers(len(bound["values"]), size=size)
            )
            table[column], share = np.array(bound["values"])[chosen], chosen / (len(bound["values"]) - 1)
        else:
            drawn = np.rint(draw.uniform(bound["low"], bound["high"], size))
            table[column] = np.where(usual, bound["default"], drawn)
            share = (table[column] - bound["low"]) / (bound["high"] - bound["low"])
        logit += 2.0 * (share - share.mean()) if place % 3 == 0 else 0.0
    yes = draw.random(size) < 1 / (1 + np.exp(-logit))
    table[label] = np.where(yes, bounds[label]["values"][1], bounds[label]["values"][0])
    train, test = ({c: values[part] for c, values in table.items()} for part in (slice(0, 6000), slice(6000, None)))
    return People(name, train, test, label, bounds, made_up=True)


def adult() -> People | None:
    """Census of 1994: 32,561 people to learn from, 16,281 to test on, 12 columns; does somebody earn over 50,000?
    None where absent."""
    files = [opened(f"adult/adult.{part}.gz") for part in ("data", "test")]
    if files[0] is None or files[1] is None:
        return None
    import pandas as pd

    names = [
        "age", "workclass", "fnlwgt", "degree", "education", "married", "occupation", "relationship", "race", "sex",
        "gain", "loss", "hours", "country", "income",
    ]  # fmt: skip

    def read(file: BytesIO, skip: int) -> dict[str, NDArray[Any]]:
        table = pd.read_csv(file, names=names, skiprows=skip, skipinitialspace=True, compression="gzip")
        table["income"] = table["income"].str.rstrip(".")
        return {column: table[column].to_numpy() for column in _ADULT}

    return People("adult", read(files[0], 0), read(files[1], 1), "income", _ADULT)


def oulad() -> People | None:
    """Students of the Open University who were still registered on day 42 of their course: 18,917 registrations to
    learn from and 8,107 to test on; will somebody withdraw? What is known is what was known on day 42. None where
    absent."""
    parts = ("studentInfo", "studentRegistration", "studentAssessment", "assessments")
    files = [file for part in parts if (file := opened(f"oulad/{part}.csv.gz")) is not None]
    if len(files) < len(parts):
        return None
    import pandas as pd

    info, registered, told, work = (pd.read_csv(file, compression="gzip") for file in files)
    key = ["code_module", "code_presentation", "id_student"]
    whole = info.merge(registered, on=key)
    whole = whole[~(whole["date_unregistration"] <= DAY)]
    told = told.merge(work, on="id_assessment")
    told = told[(told["date_submitted"] <= DAY) & (told["is_banked"] == 0)]
    sums = told.groupby(key)["score"].agg(["mean", "size"]).reset_index()
    whole = whole.merge(sums, on=key, how="left")
    columns = {
        "module": whole["code_module"],
        "gender": whole["gender"],
        "region": whole["region"],
        "education": whole["highest_education"],
        "deprivation": whole["imd_band"].fillna("?").str.replace("%", ""),
        "age": whole["age_band"],
        "attempts": whole["num_of_prev_attempts"],
        "credits": whole["studied_credits"],
        "disability": whole["disability"],
        "registered": whole["date_registration"].fillna(0.0),
        "score": whole["mean"].fillna(0.0),
        "submitted": whole["size"].fillna(0.0),
        "withdrawn": np.where(whole["final_result"] == "Withdrawn", "yes", "no"),
    }
    table = {name: np.asarray(column) for name, column in columns.items()}
    order = np.random.default_rng(0).permutation(len(whole))  # a split, not noise
    first = round(0.7 * len(order))
    train, test = ({name: column[part] for name, column in table.items()} for part in (order[:first], order[first:]))
    return People("oulad", train, test, "withdrawn", _OULAD)


def opened(name: str) -> BytesIO | None:
    """A file of published data by its name below `data_folder`; None where it is absent. One with other bytes than
    those that the experiments were written for is refused: numbers learned from it could not be compared."""
    return opened_in(data_folder(), name)


def opened_in(folder: Path, name: str) -> BytesIO | None:
    """The same in another folder. How a file was packed or written does not matter, where the checksum of what it holds
    is known."""
    path = folder / name
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not is_published(name, content):
        raise Mistake("THEBES_DATA", f"holds another {name} than the published one (its SHA-256 differs)")
    return BytesIO(content)


def data_folder() -> Path:
    """Find the folder where real data lie: THEBES_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("THEBES_DATA") or Path(__file__).parents[2] / "shared" / "data")


def _bundled(name: str, bunch: Any, bounds: dict[str, Pair], target: Pair | None = None) -> Dataset:
    columns = tuple(str(column) for column in bunch.feature_names)
    return Dataset(name, np.asarray(bunch.data), np.asarray(bunch.target), columns, _numbered(bounds, columns, target))


def _numbered(bounds: dict[str, Pair], columns: tuple[str, ...], target: Pair | None) -> dict[int | str, Pair]:
    numbered: dict[int | str, Pair] = {j: bounds[column] for j, column in enumerate(columns)}
    if target is not None:
        numbered["y"] = target
    return numbered


_WINE: dict[str, Pair] = {
    "alcohol": (11.0, 15.0),
    "malic_acid": (0.74, 5.8),
    "ash": (1.3, 3.3),
    "alcalinity_of_ash": (10.0, 30.0),
    "magnesium": (70.0, 170.0),
    "total_phenols": (0.98, 3.9),
    "flavanoids": (0.34, 5.1),
    "nonflavanoid_phenols": (0.13, 0.66),
    "proanthocyanins": (0.41, 3.6),
    "color_intensity": (1.2, 13.0),
    "hue": (0.48, 1.8),
    "od280/od315_of_diluted_wines": (1.2, 4.0),
    "proline": (270.0, 1700.0),
}

_CANCER: dict[str, Pair] = {
    "mean radius": (6.9, 29.0),
    "mean texture": (9.7, 40.0),
    "mean perimeter": (43.0, 190.0),
    "mean area": (140.0, 2600.0),
    "mean smoothness": (0.052, 0.17),
    "mean compactness": (0.019, 0.35),
    "mean concavity": (0.0, 0.43),
    "mean concave points": (0.0, 0.21),
    "mean symmetry": (0.1, 0.31),
    "mean fractal dimension": (0.049, 0.098),
    "radius error": (0.11, 2.9),
    "texture error": (0.36, 4.9),
    "perimeter error": (0.75, 22.0),
    "area error": (6.8, 550.0),
    "smoothness error": (0.0017, 0.032),
    "compactness error": (0.0022, 0.14),
    "concavity error": (0.0, 0.4),
    "concave points error": (0.0, 0.053),
    "symmetry error": (0.0078, 0.079),
    "fractal dimension error": (0.00089, 0.03),
    "worst radius": (7.9, 37.0),
    "worst texture": (12.0, 50.0),
    "worst perimeter": (50.0, 260.0),
    "worst area": (180.0, 4300.0),
    "worst smoothness": (0.071, 0.23),
    "worst compactness": (0.027, 1.1),
    "worst concavity": (0.0, 1.3),
    "worst concave points": (0.0, 0.3),
    "worst symmetry": (0.15, 0.67),
    "worst fractal dimension": (0.055, 0.21),
}

_DIABETES: dict[str, Pair] = {
    "age": (-0.11, 0.12),
    "sex": (-0.045, 0.051),
    "bmi": (-0.091, 0.18),
    "bp": (-0.12, 0.14),
    "s1": (-0.13, 0.16),
    "s2": (-0.12, 0.2),
    "s3": (-0.11, 0.19),
    "s4": (-0.077, 0.19),
    "s5": (-0.13, 0.14),
    "s6": (-0.14, 0.14),
}

_HOUSING: dict[str, Pair] = {
    "MedInc": (0.0, 15.0),
    "HouseAge": (0.0, 52.0),
    "AveRooms": (0.0, 12.0),
    "AveBedrms": (0.0, 3.0),
    "Population": (0.0, 6000.0),
    "AveOccup": (0.0, 8.0),
    "Latitude": (32.0, 42.0),
    "Longitude": (-125.0, -114.0),
}


def _range(low: float, high: float, default: float) -> dict[str, Any]:
    return {"type": "range", "low": low, "high": high, "default": default}


def _set(values: str, default: str | None = None) -> dict[str, Any]:
    listed = values.split("|")
    return {"type": "set", "values": listed, "default": default if default is not None else listed[0]}


_ADULT: dict[str, dict[str, Any]] = {
    "age": _range(17, 90, 38),
    "workclass": _set(
        "Private|Self-emp-not-inc|Self-emp-inc|Federal-gov|Local-gov|State-gov|Without-pay|Never-worked|?"
    ),
    "education": _range(1, 16, 10),
    "married": _set(
        "Married-civ-spouse|Married-AF-spouse|Never-married|Divorced|Separated|Widowed|Married-spouse-absent"
    ),
    "occupation": _set(
        "?|Exec-managerial|Prof-specialty|Tech-support|Protective-serv|Sales|Craft-repair|Transport-moving|"
        "Adm-clerical|Machine-op-inspct|Farming-fishing|Armed-Forces|Handlers-cleaners|Other-service|Priv-house-serv"
    ),
    "relationship": _set("Husband|Wife|Not-in-family|Own-child|Unmarried|Other-relative"),
    "race": _set("White|Black|Asian-Pac-Islander|Amer-Indian-Eskimo|Other"),
    "sex": _set("Female|Male"),
    "gain": _range(0, 20_000, 0),
    "loss": _range(0, 5_000, 0),
    "hours": _range(1, 99, 40),
    "country": _set(
        "United-States|?|Cambodia|Canada|China|Columbia|Cuba|Dominican-Republic|Ecuador|El-Salvador|England|France|"
        "Germany|Greece|Guatemala|Haiti|Holand-Netherlands|Honduras|Hong|Hungary|India|Iran|Ireland|Italy|Jamaica|"
        "Japan|Laos|Mexico|Nicaragua|Outlying-US(Guam-USVI-etc)|Peru|Philippines|Poland|Portugal|Puerto-Rico|Scotland|"
        "South|Taiwan|Thailand|Trinadad&Tobago|Vietnam|Yugoslavia"
    ),
    "income": _set("<=50K|>50K"),
}

_OULAD: dict[str, dict[str, Any]] = {
    "module": _set("AAA|BBB|CCC|DDD|EEE|FFF|GGG"),
    "gender": _set("F|M"),
    "region": _set(
        "East Anglian Region|East Midlands Region|Ireland|London Region|North Region|North Western Region|Scotland|"
        "South East Region|South Region|South West Region|Wales|West Midlands Region|Yorkshire Region"
    ),
    "education": _set(
        "No Formal quals|Lower Than A Level|A Level or Equivalent|HE Qualification|Post Graduate Qualification",
        "A Level or Equivalent",
    ),
    "deprivation": _set("?|0-10|10-20|20-30|30-40|40-50|50-60|60-70|70-80|80-90|90-100"),
    "age": _set("0-35|35-55|55<="),
    "attempts": _range(0, 6, 0),
    "credits": _range(30, 660, 60),
    "disability": _set("N|Y"),
    "registered": _range(-330, 42, -60),
    "score": _range(0, 100, 0),
    "submitted": _range(0, 6, 0),
    "withdrawn": _set("no|yes"),
}
