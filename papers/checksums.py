"""The published data by their SHA-256: of whole files, or of what they hold, however it was packed or written.

A table counts by its values, in the order of its columns and rows.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.published_weights import PUBLISHED
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    import pandas as pd

_PIECE = 2**20


def is_published(name: str, content: bytes) -> bool:
    """Return whether this is the published file of that name below the folder of data, or one that holds the same."""
    if name in _FILES and hashlib.sha256(content).hexdigest() == _FILES[name]:
        return True
    return name in HELD and held(name, content) == HELD[name]


def held(name: str, content: bytes) -> str | None:
    """The checksum of what a file holds, by the end of its name; None where that cannot be told."""
    if name.endswith(".parquet"):
        table = _table(content)
        return None if table is None else of_table(table)
    try:
        return _of_stream(lzma.open(BytesIO(content)) if name.endswith(".xz") else gzip.open(BytesIO(content)))
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return None


def _table(content: bytes) -> pd.DataFrame | None:
    import pandas as pd

    try:
        return pd.read_parquet(BytesIO(content))
    except ImportError:
        raise Mistake("pyarrow", "is needed to read tables: pip install pyarrow") from None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def of_table(table: pd.DataFrame) -> str:
    """Of its values by column: numbers as float64, times in milliseconds, words as themselves."""
    whole = hashlib.sha256()
    for name in table.columns:
        kind, words, values = _numbered(table[name])
        for told in (str(name), kind, str(len(values)), str(len(words)), *words):
            whole.update(len(told.encode()).to_bytes(8, "little") + told.encode())
        whole.update(values.astype("<u8").tobytes())
    return whole.hexdigest()


def _numbered(column: pd.Series) -> tuple[str, list[str], NDArray[np.uint64]]:
    """Return what a column holds, its words in their order, and a number for each value: the bits of a float64, or the
    place of a word, where 0 is nothing."""
    from pandas.api import types

    if types.is_datetime64_any_dtype(column):
        moments = column.to_numpy(dtype="datetime64[ms]").astype(np.int64).astype(np.float64)
        return "time", [], _bits(np.where(column.isna().to_numpy(), np.nan, moments))
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return "number", [], _bits(column.to_numpy(dtype=np.float64, na_value=np.nan))
    import pandas as pd

    places, found = pd.factorize(column)
    order = np.argsort(np.asarray(found, dtype=object))
    ranks = np.empty(len(found) + 1, dtype=np.uint64)
    ranks[order], ranks[-1] = np.arange(1, len(found) + 1), 0
    return "words", [str(word) for word in np.asarray(found, dtype=object)[order]], ranks[places]


def _bits(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """One pattern for each number, and one for none."""
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").view(np.uint64)


def _of_stream(stream: Any) -> str:
    found = hashlib.sha256()
    with stream:
        while piece := stream.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


#: of every file that is read, as it was when the experiments were written, or as it was published
_FILES = {
    "california_housing/cal_housing.csv.gz": "b2828a4e30b3d8eba3ffc9175a92327b57fc302812b75fbd84558d5ed94ba840",
    "adult/adult.data.gz": "c7a2b4716a97f930123e0baf879188d701e798172631a654fc703d4b082907f3",
    "adult/adult.test.gz": "8a2c1bffa6e7ce5abfa43881ae5e87c4311ebc2b3cd526c9c40a43f19f06f799",
    "oulad/studentInfo.csv.gz": "e7fc5fa7a1bc406c03eba7bf27a465b04202620febd5d01c8ac8d1a4ec2f7137",
    "oulad/studentRegistration.csv.gz": "82d78404bca0fe0a7c91b1e61f865989b9f5b9b13cb7bdf8c9721946edd677cd",
    "oulad/studentAssessment.csv.gz": "311f2370fa02f3fcc59b6a51fd197ac0eb023374df21925d1f191b78efbc0126",
    "oulad/assessments.csv.gz": "4ca296b0030d48baeaa0ac0db9dbceb0e438c4e85d5d4b63c618efb73a058f9d",
    "avocado/avocado.csv.gz": "b277aad365084774fbe8567129624e11cd250bb54382e96cb73d9c58d268d7b8",
    "bank/bank-full.csv.gz": "a33820520e31d26b498e31003e99eb0e477690b699a38eade375acf3b3004dcd",
    "mnist/train-images-idx3-ubyte.gz": "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
    "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "ham10000/HAM10000_metadata.csv.gz": "a8a078e34e68f5923572f5b24b1bb78ad3742cfbf365698e4d12dd7b54c17f2a",
    "cifar10/cifar10_jpeg.tar.xz": "ee76cb8cad525e8c5a5117a66ca036869c0b804e0eedb496ff61535c824ad3bd",
    "github_pullreqs/pullreqs_msr14.parquet": "7cdf7143cc725ecd313a841ea852802f4493f673108d351e9aeb8c8fe064d9d1",
    "nyc_taxi/yellow_tripdata_sample_2018-2020.parquet": (
        "5face77aa52ff0fa80a0bcb414446065b8380ddb3abb69be86aea8672f5bd6fe"
    ),
    "criteo/criteo_kaggle_sample_137k.parquet": "cd25af1c97560d7cfa60f85b491633f73dcf813e1cfc0195e9dc9f75051fdc57",
    "cifar10_lossless/cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    **{f"{name}/{one.file}": one.sha256 for name, one in PUBLISHED.items()},
}

#: of what is in those that `fetching` packs or writes itself
HELD = {
    "adult/adult.data.gz": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult/adult.test.gz": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "avocado/avocado.csv.gz": "a608b8513343e063a3d7440d863f94a73f99084b3c24205cafb8d02792653cc9",
    "bank/bank-full.csv.gz": "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    "california_housing/cal_housing.csv.gz": "534365b6c3c9b07c2b7d88e0ff9f1b41725d8b799748f5c0b80e1067f51c8ab3",
    "ham10000/HAM10000_metadata.csv.gz": "3acc8553b04222669907b3bf2bcd73c5e59bbe549e12158f033a7c9ad0b60542",
    "oulad/studentInfo.csv.gz": "7e6f3e474a5eee00639d2a414a6c7e928745823c2d2c2563ca1780145f99b0d6",
    "oulad/studentRegistration.csv.gz": "0d32676285372aaf2e7a80304e5b274b4fba24313e2ca4c04317225e1ec90170",
    "oulad/studentAssessment.csv.gz": "05ac3ae53007f25ad1b1dacf355967220cb10bf9876a42f23d20197cf4a1d64b",
    "oulad/assessments.csv.gz": "31e32a82c839898ce059d5888158bddcd1b4dc77af1ba0333a11c7102729f653",
    "mnist/train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "mnist/train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "mnist/t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "mnist/t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "cifar10/cifar10_jpeg.tar.xz": "839edf26db454edb390deb2877774f3fa7d48f515e4a854e684aa60f148efbb8",
    "github_pullreqs/pullreqs_msr14.parquet": "97056137d6821b1abbc67e0676b47f9547f472b072be0c9c5cfa573f8889b693",
    "nyc_taxi/yellow_tripdata_sample_2018-2020.parquet": (
        "22a1cf68d01907c506de2efdc48ade840dd6de528f732115ce6fc17b5094f2d5"
    ),
    "criteo/criteo_kaggle_sample_137k.parquet": "b31ffe2d61ff3c100b536b83a85c8d3b27c22a0c2bfe7380d6ad2105f943063f",
}
