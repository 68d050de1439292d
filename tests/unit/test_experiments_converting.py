"""Files at public places become the very files that experiments read, whoever packed it."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from papers import checksums, cifar, converting, datasets
from papers.checksums import of_table
from thebes.privacy.faults import Mistake

RIDES = "nyc_taxi/yellow_tripdata_sample_2018-2020.parquet"


def archive(files: dict[str, bytes], *, folder: str, comment: str = "", moment: int = 0, rights: int = 0o600) -> bytes:
    """As a site packs a repository: everything below one folder."""
    held = io.BytesIO()
    headers = {"comment": comment} if comment else None
    with tarfile.open(fileobj=held, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=headers) as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), moment, rights
            made.addfile(entry, io.BytesIO(content))
    return held.getvalue()


# --- pictures -----------------------------------------------------------------------------------------------


def test_pictures_come_as_git_would_archive_them_however_a_site_packed_them(tmp_path: Path) -> None:
    """The oracle is git itself."""
    if shutil.which("git") is None:
        pytest.skip("git is absent")
    files = {f"{part}/{kind}/000{place}.jpg": bytes([place]) * (500 + place) for part in ("train", "test")
             for kind in ("truck", "cat") for place in range(3)}  # fmt: skip
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "README.md").write_text("not a picture")
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "1554014139 +0900"}
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    usual = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # a hook names another
    around = {**usual, **nobody, **who, "GIT_COMMITTER_DATE": nobody["GIT_AUTHOR_DATE"]}

    def git(*arguments: str) -> bytes:
        return subprocess.run(
            ["git", "-C", str(tmp_path), *arguments], env=around, check=True, capture_output=True
        ).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "pictures")
    commit = git("rev-parse", "HEAD").decode().strip()
    expected = git("archive", "--format=tar", commit, "train", "test")
    others = {"README.md": b"other", "train/cat/../../x.jpg": b"", "train/cat/deeper/0000.jpg": b"", "a/cat/0.jpg": b""}
    packed = archive({**others, **dict(reversed(files.items()))}, folder="x-1", comment=commit, moment=1554014139)
    assert lzma.decompress(converting.pictures([packed])) == expected


def test_the_first_pictures_that_are_here_are_made_again_to_the_byte() -> None:
    """The file itself is put together from its own pictures, as they lie in a repository's archive."""
    path = datasets.data_folder() / cifar.JPEG
    if not path.is_file():
        pytest.skip("the data are not here")
    with lzma.open(path) as stream:
        start = stream.read(400_000)
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(start)) as some:
        while len(files) < 100:
            entry = some.next()
            assert entry is not None
            held = some.extractfile(entry) if entry.isfile() else None
            if held is not None:
                files[entry.name] = held.read()
        comment, until = some.pax_headers["comment"], some.offset
    packed = archive(files, folder=f"CIFAR-10-images-{comment}", comment=comment, moment=1554014139)
    made = lzma.decompress(converting.pictures([packed]))
    assert made[:until] == start[:until]
    assert not any(made[until:])


def test_an_archive_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = archive({"train/cat/0000.jpg": bytes(5000)}, folder="x")
    monkeypatch.setattr(converting, "MOST_BYTES", 4999)
    with pytest.raises(converting.BROKEN):
        converting.pictures([packed])
    with pytest.raises(converting.BROKEN):
        converting.pictures([b"no archive"])


def lossless(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """An archive as CIFAR-10 was published, of 20 pictures in each of six files, below a folder of data."""
    draw = np.random.default_rng(0)
    records = {}
    for name in (*(f"data_batch_{part}.bin" for part in range(1, 6)), "test_batch.bin"):
        labels = draw.permutation(np.repeat(np.arange(10, dtype=np.uint8), 2))
        records[name] = np.column_stack([labels, draw.integers(0, 256, (20, 3072), dtype=np.uint8)])
    files = {name: rows.tobytes() for name, rows in records.items()}
    packed = archive({"readme.html": b"", "batches.meta.txt": b"", **files}, folder="cifar-10-batches-bin")
    monkeypatch.setenv("THEBES_DATA", str(folder))
    monkeypatch.setattr(datasets, "is_published", lambda name, content: content == packed)
    (folder / cifar.LOSSLESS).parent.mkdir()
    (folder / cifar.LOSSLESS).write_bytes(packed)
    return records


def test_lossless_pictures_are_read_by_kind_and_shrunk_as_pillow_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = lossless(monkeypatch, tmp_path)
    found = cifar.pictures(8, {"train": 3, "test": 1})
    assert found is not None
    dots, kinds = found["train"]
    assert dots.shape == (30, 3, 8, 8)
    assert kinds.tolist() == np.repeat(np.arange(10), 3).tolist()
    assert found["test"][1].tolist() == list(range(10))
    assert cifar.called() == "CIFAR-10"
    train = np.concatenate([records[f"data_batch_{part}.bin"] for part in range(1, 6)])
    first_cat = train[train[:, 0] == 3][0, 1:].reshape(3, 32, 32)
    image = pytest.importorskip("PIL.Image")
    shrunk = image.fromarray(first_cat.transpose(1, 2, 0)).resize((8, 8), image.Resampling.BOX)
    assert np.abs(np.asarray(shrunk).transpose(2, 0, 1).astype(int) - dots[9]).max() <= 1


def test_an_archive_of_pictures_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lossless(monkeypatch, tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    with pytest.raises(Mistake, match="holds another"):
        cifar.pictures(8, {"train": 1})


# --- tables -------------------------------------------------------------------------------------------------


def rides() -> pd.DataFrame:
    """Two months of one ride each, as experiments read them; half of the second was never written down."""
    numbers = ("fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount", "improvement_surcharge", "total_amount")
    moments = np.array(["2018-01-11T18:24:44", "2018-02-05T15:31:57"], dtype="datetime64[ms]")
    return pd.DataFrame(
        {
            "vendor_id": pd.array([2, None], dtype="Int16"),
            "pickup_datetime": moments,
            "dropoff_datetime": moments + np.timedelta64(540_000, "ms"),
            "passenger_count": pd.array([1, None], dtype="Int16"),
            "trip_distance": [1.65, 0.73],
            "rate_code_id": pd.array([1, None], dtype="Int16"),
            "store_and_fwd_flag": ["N", None],
            "pickup_location_id": pd.array([230, 223], dtype="Int16"),
            "dropoff_location_id": pd.array([237, 223], dtype="Int16"),
            "payment_type": pd.array([1, None], dtype="Int16"),
            **{name: [0.1, 2.06] for name in numbers},
            "congestion_surcharge": [np.nan, 2.5],
        }
    )


def as_csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, date_format="%Y-%m-%d %H:%M:%S").encode()


def test_months_of_rides_become_one_table_of_the_same_values() -> None:
    table = rides()
    made = converting.rides([as_csv(table.iloc[:1]), as_csv(table.iloc[1:])])
    found = pd.read_parquet(io.BytesIO(made))
    assert of_table(found) == of_table(table)
    assert {str(kind) for kind in found.dtypes[["vendor_id", "payment_type"]]} == {"Int16"}
    assert of_table(pd.read_parquet(io.BytesIO(converting.rides([as_csv(table[::-1])])))) != of_table(table)
    with pytest.raises(converting.BROKEN):
        converting.rides([as_csv(table.assign(vendor_id="somebody"))])


def test_rides_that_are_here_come_back_from_the_text_that_they_were() -> None:
    path = datasets.data_folder() / RIDES
    if not path.is_file():
        pytest.skip("the data are not here")
    table = pd.read_parquet(path).iloc[::1200]
    made = converting.rides([as_csv(table.iloc[:150]), as_csv(table.iloc[150:])])
    assert of_table(pd.read_parquet(io.BytesIO(made))) == of_table(table)


def test_parts_of_words_alone_become_numbers_and_words_and_nothing() -> None:
    parts = []
    for label, size, word in (("0", "23255", "7e5c2ff4"), ("1", "", ""), ("0", "-2", "05db9164")):
        held = io.BytesIO()
        pd.DataFrame({"label": [label], "I1": [size], "C1": [word]}).to_parquet(held)
        parts.append(held.getvalue())
    found = pd.read_parquet(io.BytesIO(converting.advertisements(parts)))
    expected = pd.DataFrame({"label": [0, 1, 0], "I1": [23255, np.nan, -2], "C1": ["7e5c2ff4", None, "05db9164"]})
    assert of_table(found) == of_table(expected)
    assert [str(kind) for kind in found.dtypes[["label", "I1"]]] == ["Int8", "Int32"]


NAMES = {"ana": "wonderwoman", "ben": "superman"}


def requests() -> dict[str, bytes]:
    """Four pull requests of two people to two projects."""
    head = "pull_req_id,project_name,lang,github_id,created_at,merged_at,mergetime_minutes,conflict,requester\n"
    a = f"9,a/a,ruby,31,100,120,2,false,{NAMES['ana']}\n8,a/a,ruby,30,90,,,true,{NAMES['ben']}\n"
    b = f"7,b/b,java,4,80,95,1,false,{NAMES['ana']}\n6,b/b,java,3,70,,,false,{NAMES['ben']}"
    return {"data/a@a.csv": (head + a).encode(), "data/b@b.csv": (head + b).encode(), "data/c@c.csv": head.encode()}


def test_pull_requests_keep_what_they_are_and_lose_whose() -> None:
    packed = archive({"README.md": b"x", "doc/data/x.csv": b"y", **requests()}, folder="pullreqs-1")
    made = converting.pull_requests([packed])
    found = pd.read_parquet(io.BytesIO(made))
    kept = ("project_name", "lang", "created_at", "merged_at", "mergetime_minutes", "conflict", "requester")
    assert tuple(found) == kept
    rows = {row["created_at"]: row for row in found.to_dict("records")}
    assert sorted(rows) == [70, 80, 90, 100]
    assert (pd.isna(rows[70]["merged_at"]), rows[80]["merged_at"]) == (True, 95)
    assert rows[100]["requester"] == rows[80]["requester"] != rows[90]["requester"]
    assert rows[100]["project_name"] == rows[90]["project_name"] != rows[80]["project_name"]
    for name in (*NAMES.values(), "a/a"):
        assert name.encode() not in made
    again = archive(dict(reversed(requests().items())), folder="pullreqs-2", rights=0o644)
    assert of_table(pd.read_parquet(io.BytesIO(converting.pull_requests([again])))) == of_table(found)
    with pytest.raises(converting.BROKEN):
        converting.pull_requests([archive({"data/a.csv": b"a\n1\n", "data/b.csv": b"b\n1\n"}, folder="x")])


@pytest.mark.parametrize(
    "other",
    [
        {"n": [1.0, np.nan, 4.0], "w": ["x", None, "y"]},
        {"n": [1.0, 3.0, np.nan], "w": ["x", None, "y"]},
        {"n": [1.0, np.nan, 3.0], "w": ["x", "y", None]},
        {"n": [1.0, np.nan, 3.0], "w": ["x", "", "y"]},
        {"n": [1.0, np.nan, 3.0], "w": ["x", None, "z"]},
        {"m": [1.0, np.nan, 3.0], "w": ["x", None, "y"]},
        {"w": ["x", None, "y"], "n": [1.0, np.nan, 3.0]},
        {"n": [1.0, np.nan], "w": ["x", None]},
    ],
)
def test_the_checksum_of_a_table_notices_any_other_value_name_or_order(other: dict[str, Any]) -> None:
    table = pd.DataFrame({"n": [1.0, np.nan, 3.0], "w": ["x", None, "y"]})
    assert of_table(pd.DataFrame(other)) != of_table(table)
    same = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int16"), "w": pd.Series(["x", None, "y"], dtype="string")})
    assert of_table(same) == of_table(table)


def test_a_table_that_nothing_here_can_read_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*arguments: Any, **more: Any) -> None:
        raise ImportError

    monkeypatch.setattr(pd, "read_parquet", absent)
    with pytest.raises(Mistake, match="pip install pyarrow"):
        checksums.held("a.parquet", b"PAR1")


def test_what_cannot_be_read_has_no_checksum() -> None:
    for name, content in (("a.parquet", b"PAR1"), ("a.tar.xz", b"xz"), ("a.gz", gzip.compress(b"whole")[:-3])):
        assert checksums.held(name, content) is None
