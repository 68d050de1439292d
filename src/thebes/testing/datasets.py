"""Real data sets with public bounds, for tests and benchmarks: wine, cancer, diabetes (from scikit-learn) and housing.

Bounds are constants: the documented least and greatest value of a column, rounded outward to two digits.
Housing is read from the folder named by THEBES_DATA and is absent where that folder is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows, target, column names, and public bounds by column index (the target's under "y")."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    columns: tuple[str, ...]
    bounds: dict[int | str, Pair]

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
    path = data_folder() / "california_housing" / "cal_housing.csv.gz"
    if not path.is_file():
        return None
    import pandas as pd

    raw = pd.read_csv(path)
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


def data_folder() -> Path:
    """Where real data lie: THEBES_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("THEBES_DATA") or Path(__file__).parents[4] / "shared" / "data")


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
