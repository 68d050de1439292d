"""Published data from where somebody put them, by address and commit, into the folder that experiments read.

Only the very bytes that the experiments were written for are kept: a file is unpacked, mended where its place lacks a
line of the original, and compared with its SHA-256, before it is packed again. Files that were put together from many
(MNIST, CIFAR-10, rides, advertisements, pull requests) have no such place and are not fetched.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from thebes.experiments.datasets import UNPACKED, opened_in
from thebes.privacy.faults import Mistake, Refusal

SOURCE = "https://raw.githubusercontent.com"
MOST_BYTES = 64 * 2**20  #: of a file on its way, and unpacked
SECONDS = 60.0


class NotFetched(Refusal):
    """A published file could not be had, or was another one than its checksum says; nothing was written."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} was not fetched: {why}")
        self.name = name
        self.why = why


@dataclass(frozen=True, slots=True)
class Place:
    """A commit of a public repository, and the licence of the data in it."""

    repository: str
    commit: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One file: `name` below the folder of data, and where its bytes are (`member` of a zip; `first` and `last` are
    what the original has before and after them)."""

    name: str
    place: Place
    path: str
    member: str = ""
    first: bytes = b""
    last: bytes = b""

    def address(self, source: str = SOURCE) -> str:
        return f"{source}/{self.place.repository}/{self.place.commit}/{self.path}"


_CENSUS = Place("myau01/DM-Assignment1", "146404905b8522bc4e9da6152734f943d3bda4ec", "CC BY 4.0 (Kohavi, Becker 1996)")
_AVOCADO = Place(
    "alexwolson/carte_workshop_datasets", "e045647285fbafba25603665b6c304fa528e6373", "ODbL 1.0 (Hass Avocado Board)"
)
_BANK = Place(
    "RajatRasal/Bayes-Opt-SkOpt", "504a1aa3c89ece3d5a25d11b736d54f0b0924a52", "CC BY 4.0 (Moro, Cortez, Rita 2014)"
)
_HOUSES = Place("we-b/datasets_for_ai", "0dc3b0ecd0057ac117b8349079e53e4c94748ea2", "none stated (Pace, Barry 1997)")
_MOLES = Place(
    "patink/Skin-cancer-classification-using-CNN",
    "193fd370d7524eeb27a9ec65592feecbea7a3ffd",
    "CC BY-NC 4.0 (Tschandl, Rosendahl, Kittler 2018), not for commercial use",
)
_STUDENTS = "CC BY 4.0 (Kuzilek, Hlosta, Zdrahal 2017)"
_INFO = Place("MikeTD12/capstone", "fc072e1dc35286041269cdc8d5471b3435fbd442", _STUDENTS)
_WORK = Place("raisasalsabily/oulad-olap", "02f932cb0bef4ac868d0e16485be28b47617b2c0", _STUDENTS)
_FIRST_LINE = b"|1x3 Cross validator\n"

FILES = (
    Published(name="adult/adult.data.gz", place=_CENSUS, path="adult-full.data"),
    Published(name="adult/adult.test.gz", place=_CENSUS, path="adult.test", first=_FIRST_LINE, last=b"\n\n"),
    Published(name="avocado/avocado.csv.gz", place=_AVOCADO, path="avocado.csv.zip", member="avocado.csv"),
    Published(name="bank/bank-full.csv.gz", place=_BANK, path="bank-full.zip", member="bank-full.csv"),
    Published(name="california_housing/cal_housing.csv.gz", place=_HOUSES, path="cal_housing.data"),
    Published(name="ham10000/HAM10000_metadata.csv.gz", place=_MOLES, path="HAM10000_metadata.csv"),
    Published(name="oulad/studentInfo.csv.gz", place=_INFO, path="studentInfo.csv"),
    Published(name="oulad/studentRegistration.csv.gz", place=_INFO, path="studentRegistration.csv"),
    Published(name="oulad/studentAssessment.csv.gz", place=_WORK, path="data/studentAssessment.csv"),
    Published(name="oulad/assessments.csv.gz", place=_WORK, path="data/assessments.csv"),
)


def sets() -> tuple[str, ...]:
    """The data sets that can be fetched."""
    return tuple(dict.fromkeys(one.name.partition("/")[0] for one in FILES))


def files_of(names: list[str]) -> tuple[Published, ...]:
    """Those of the data sets named; all of them where none is."""
    for name in names:
        if name not in sets():
            raise Mistake("NAME", f"{name[:60]!r} cannot be fetched; there are: {', '.join(sets())}")
    return tuple(one for one in FILES if not names or one.name.partition("/")[0] in names)


def fetch(one: Published, folder: Path, *, source: str = SOURCE) -> bool:
    """Whether anything was fetched: a file that is there and right stays as it is, any other is written whole or not at
    all."""
    if opened_in(folder, one.name) is not None:
        return False
    content = one.first + _unpacked(one, _downloaded(one, source)) + one.last
    if hashlib.sha256(content).hexdigest() != UNPACKED[one.name]:
        raise NotFetched(one.name, "what lies there now is not the published file (its SHA-256 differs)")
    path = folder / one.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(gzip.compress(content, mtime=0))
        new.replace(path)
    except OSError as error:
        raise Mistake("--data", f"cannot be written ({error.strerror}); name a folder that can") from None
    return True


def _downloaded(one: Published, source: str) -> bytes:
    import httpx

    held = bytearray()
    try:
        with httpx.stream("GET", one.address(source), timeout=SECONDS) as answer:
            if answer.status_code != 200:
                raise NotFetched(one.name, f"its place answers with status {answer.status_code}")
            for piece in answer.iter_bytes():
                held += piece
                if len(held) > MOST_BYTES:
                    raise NotFetched(one.name, "what lies there now is far too large")
    except httpx.HTTPError:
        raise NotFetched(one.name, "its place cannot be reached; is there a network?") from None
    return bytes(held)


def _unpacked(one: Published, content: bytes) -> bytes:
    if not one.member:
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.getinfo(one.member).file_size > MOST_BYTES:
                raise NotFetched(one.name, "what lies there now is far too large")
            return archive.read(one.member)
    except (KeyError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        raise NotFetched(one.name, "what lies there now cannot be unpacked") from None
