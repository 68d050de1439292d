"""Columns of pictures and arrays: how they are declared, opened and decoded, and everything that they are not for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.support.command import exit_status
from tests.support.pictures import PHOTO, SCHEMA, SOURCE, encoded, hostile, noise, png, polyglot, put
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.derived_columns import derived_schema
from thebes.data.engines.source import frame_table, table_of
from thebes.data.filter import read_filter
from thebes.data.join import join
from thebes.data.pictures import limits
from thebes.data.pictures.decoder import PictureDecoder
from thebes.data.pictures.folder import PictureFolder, UnreadablePicture
from thebes.data.pictures.pipe import LENGTH, START
from thebes.data.schema import read_shown, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake
from thebes.site.dataset import BudgetDeclaration, cache_of
from thebes.site.steward.data_check import looked_at

ARRAY = {"type": "array", "shape": [2, 3], "low": -1, "high": 1}
HOSTILE = hostile()
WHOLE = ("bomb that says it is small",)  # what comes after a whole picture is not looked at


def declared(**columns: Any) -> Any:
    return schema_of({**SCHEMA, "columns": {**SCHEMA["columns"], **columns}})


@pytest.fixture(scope="module")
def decoder() -> Iterator[PictureDecoder]:
    made = PictureDecoder((3, 8, 8))
    yield made
    made.close()


# --- declared -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"type": "image"}, "needs height, width and channels"),
        ({**PHOTO, "channels": 4}, "channels"),
        ({**PHOTO, "height": 0}, "height"),
        ({**PHOTO, "height": 5000}, "height"),
        ({**PHOTO, "height": 4096, "width": 4096}, "more than"),
        ({**PHOTO, "values": ["a"]}, "values"),
        ({**PHOTO, "low": 0, "high": 255}, "low and high are for numbers"),
        ({**PHOTO, "shape": [3, 8, 8]}, "shape"),
        ({**PHOTO, "key": True}, "key"),
        ({"type": "array", "low": 0, "high": 1}, "shape"),
        ({"type": "array", "shape": [3]}, "low and high"),
        ({**ARRAY, "shape": []}, "shape"),
        ({**ARRAY, "shape": [1] * 5}, "shape"),
        ({**ARRAY, "shape": [4096, 4096]}, "more than"),
        ({**ARRAY, "height": 3}, "for images"),
        ({"type": "integer", "shape": [3]}, "shape"),
    ],
)
def test_what_no_picture_or_array_is_like_is_refused_by_its_column(column: dict[str, Any], said: str) -> None:
    with pytest.raises(Mistake, match=said) as refused:
        declared(photo=column)
    assert str(refused.value).startswith("columns.photo")


def test_a_schema_says_the_same_of_pictures_when_it_is_shown_and_read_again() -> None:
    schema = declared(trace=ARRAY)
    assert schema_of(schema.as_json()) == schema
    assert read_shown(schema.shown()).columns["photo"] == schema.columns["photo"]
    assert (schema.columns["photo"].tensor, schema.columns["trace"].tensor) == ((3, 8, 8), (2, 3))
    assert schema.tensors == ("photo", "trace")


# --- not for anything else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["photo", "trace"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda name, schema: read_filter(f"{name} = 'a.png'", schema),
        lambda name, schema: read_filter(f"{name} IS NULL", schema),
        lambda name, schema: derived_schema({"bright": {"multiply": [name, "label"]}}, schema),
        lambda name, schema: frame_table(schema, rows()).sums(Sums((Term(),), axes=(Axis(name, values=("a",)),))),
        lambda name, schema: frame_table(schema, rows()).sums(Sums((Term((Factor(name, 1, 1),)),))),
        lambda name, schema: frame_table(schema, rows()).occurring(name, most=1, longest=10),
        lambda name, schema: schema.column(name, "by"),
        lambda name, schema: cache_of({"kind": "pmw", "columns": [name]}, schema, BudgetDeclaration.of(1)),
    ],
)
def test_nothing_counts_sums_compares_or_groups_by_pictures_and_arrays(
    name: str, ask: Callable[[str, Any], object]
) -> None:
    with pytest.raises(Mistake, match=name):
        ask(name, declared(trace=ARRAY))


def rows() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "who": ["a", "b", "c"],
            "photo": [noise(1), b"none", None],
            "trace": [[[0, 1, -1], [9, -9, 0.5]], [1, 2], None],
            "label": [0, 1, 1],
        }
    )


def test_a_refusal_says_what_such_columns_are_for() -> None:
    schema = declared(trace=ARRAY)
    with pytest.raises(Mistake) as refused:
        schema.column("photo", "by")
    assert str(refused.value) == (
        "by: names 'photo', which holds pictures: only a network takes them, as its input; "
        "name a column of numbers or values"
    )
    with pytest.raises(Mistake, match="which holds arrays"):
        schema.column("trace", "by")


def test_joined_rows_have_no_pictures(tmp_path: Path) -> None:
    one = schema_of({**SCHEMA, "people": "patients"})
    joined = join(("scans", one), ("more", one))
    assert not joined.schema.tensors
    assert "scans_label" in joined.schema.columns


def test_a_data_set_that_grows_has_no_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"unit": "event", "time": "at", "columns": {"at": {"type": "timestamp"}, "photo": PHOTO}}
    (tmp_path / "schema.json").write_text(json.dumps(body))
    line = ("--home", tmp_path / "site", "--schema", tmp_path / "schema.json", "--block-by", "time:1d")
    assert exit_status("dataset", "create", "scans", *line, "--epsilon", "1") == 2
    assert "columns.photo.type: is not for a data set that grows" in capsys.readouterr().err


def test_paths_without_a_folder_are_refused_when_the_data_set_is_opened(tmp_path: Path) -> None:
    put(tmp_path, 1)
    with pytest.raises(Mistake, match=r"source\.files: is missing"):
        table_of(declared(), {"kind": "csv", "path": "rows.csv"}, folder=tmp_path)
    with pytest.raises(SourceUnavailable, match=r"source\.files: there is no folder gone"):
        table_of(declared(), {**SOURCE, "files": "gone"}, folder=tmp_path)


# --- opened ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[PictureFolder]:
    put(tmp_path, 1)
    (tmp_path / "secret.png").write_bytes(noise(99))
    inside = tmp_path / "files"
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "near.png").symlink_to("deep/0.png")
    (inside / "away").symlink_to(tmp_path)
    os.mkfifo(inside / "fifo.png")
    (inside / "huge.png").write_bytes(bytes(limits.MOST_BYTES + 1))
    made = PictureFolder(inside)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", limits.NONE),
        ("gone.png", limits.ABSENT),
        ("deep/gone.png", limits.ABSENT),
        ("x" * 300, limits.ABSENT),
        ("a\0b", limits.ABSENT),
        ("half \ud800", limits.ABSENT),
        ("../secret.png", limits.OUTSIDE),
        ("deep/../../secret.png", limits.OUTSIDE),
        ("./deep/0.png", limits.OUTSIDE),
        ("deep//0.png", limits.OUTSIDE),
        ("/etc/passwd", limits.OUTSIDE),
        ("a/" * 40 + "b", limits.OUTSIDE),
        ("x" * 5000, limits.OUTSIDE),
        ("link.png", limits.NOT_PLAIN),
        ("near.png", limits.NOT_PLAIN),
        ("away/secret.png", limits.NOT_PLAIN),
        ("fifo.png", limits.NOT_PLAIN),
        ("deep", limits.NOT_PLAIN),
        ("deep/0.png/x", limits.NOT_PLAIN),
        ("huge.png", limits.LARGE),
    ],
)
def test_only_a_plain_file_below_the_folder_is_opened(folder: PictureFolder, path: str, why: str) -> None:
    with pytest.raises(UnreadablePicture) as unread:
        folder.content(path)
    assert str(unread.value) == why


def test_a_device_is_not_opened(tmp_path: Path) -> None:
    made = PictureFolder(Path("/dev"))
    try:
        with pytest.raises(UnreadablePicture, match="not plain files"):
            made.content("zero")
    finally:
        made.close()


def test_a_file_below_the_folder_is_read_whole(folder: PictureFolder) -> None:
    assert folder.content("deep/0.png") == noise(0)


# --- decoded --------------------------------------------------------------------------------------------------


def test_a_picture_of_the_right_size_is_itself_channels_first(decoder: PictureDecoder) -> None:
    points = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert np.array_equal(decoder.decoded(encoded(Image.fromarray(points))), points.transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_a_png_of_any_kind_of_points_is_read(decoder: PictureDecoder, mode: str) -> None:
    if mode == "I;16":
        grey = Image.fromarray(np.full((20, 30), 255 * 256, dtype=np.uint16))
    else:
        grey = Image.new("L", (30, 20), 255).convert(mode)
    assert decoder.decoded(encoded(grey)).min() == 255


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_of_any_kind_of_points_is_read(decoder: PictureDecoder, mode: str) -> None:
    white = Image.new("RGB", (30, 20), (255, 255, 255)).convert(mode)
    assert decoder.decoded(encoded(white, "JPEG")).min() > 250


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
@pytest.mark.parametrize(
    ("noted", "corner"),
    [(1, (0, 0)), (2, (0, 1)), (3, (1, 1)), (4, (1, 0)), (5, (0, 0)), (6, (0, 1)), (7, (1, 1)), (8, (1, 0))],
)
def test_a_picture_is_turned_as_its_camera_noted(
    decoder: PictureDecoder, form: str, noted: int, corner: tuple[int, int]
) -> None:
    points = np.zeros((16, 16), dtype=np.uint8)
    points[:8, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = noted
    found = decoder.decoded(encoded(Image.fromarray(points).convert("RGB"), form, exif=exif))[0]
    quarters = found.reshape(2, 4, 2, 4).mean(axis=(1, 3))
    assert tuple(int(at) for at in np.unravel_index(quarters.argmax(), (2, 2))) == corner


def test_a_jpeg_of_a_telephone_with_another_one_behind_it_is_its_first(decoder: PictureDecoder) -> None:
    white, black = (Image.new("RGB", (16, 16), (each,) * 3) for each in (255, 0))
    assert decoder.decoded(encoded(white, "MPO", save_all=True, append_images=[black])).min() > 250


def test_the_process_of_a_picture_can_open_no_file() -> None:
    asked = (
        "import os, sys\n"
        "from thebes.data.pictures import child\n"
        "def spy(content, shape):\n"
        "    try:\n"
        "        os.open('/etc/hostname', os.O_RDONLY)\n"
        "    except OSError:\n"
        "        return bytes([1]) * 192\n"
        "    return bytes([9]) * 192\n"
        "child._warm(8, 8, 3)\n"
        "child._warm, child.decoded = lambda *_: None, spy\n"
        "child.serve(0, 1)\n"
    )
    told = START.pack(8, 8, 3, 2**30, 60) + LENGTH.pack(1) + b"x"
    done = subprocess.run([sys.executable, "-c", asked], input=told, capture_output=True, timeout=120, check=False)
    assert done.stdout == b"\1" + bytes([1]) * 192, done.stderr


def test_a_broken_note_of_the_camera_leaves_the_picture_as_it_is(decoder: PictureDecoder) -> None:
    white = encoded(
        Image.new("RGB", (8, 8), (255, 255, 255)), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + b"\xff" * 40
    )
    assert decoder.decoded(white).min() > 250


def test_other_sizes_are_brought_to_the_declared_one_by_the_same_bilinear_filter(decoder: PictureDecoder) -> None:
    big = Image.fromarray(np.random.default_rng(2).integers(0, 256, (37, 21, 3), dtype=np.uint8))
    wanted = np.asarray(big.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(decoder.decoded(encoded(big)), wanted)


def test_a_grey_column_has_one_channel() -> None:
    made = PictureDecoder((1, 4, 6))
    try:
        found = made.decoded(encoded(Image.new("RGB", (9, 9), (255, 255, 255))))
    finally:
        made.close()
    assert (found.shape, int(found.min())) == ((1, 4, 6), 255)


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "larger than any"])
def test_what_is_no_picture_is_told_apart_and_the_next_one_is_decoded(decoder: PictureDecoder, name: str) -> None:
    if name in WHOLE:
        assert decoder.decoded(HOSTILE[name]).shape == (3, 8, 8)
    else:
        with pytest.raises(UnreadablePicture, match=f"{limits.BROKEN}|{limits.HUGE}"):
            decoder.decoded(HOSTILE[name])
    assert np.array_equal(decoder.decoded(noise(5)), decoder.decoded(noise(5)))


def test_a_picture_with_too_many_points_is_refused_by_its_header(decoder: PictureDecoder) -> None:
    spent: list[float] = []
    while not spent or (spent[-1] >= 1 and len(spent) < 8):  # the processor is slow by itself now and then
        begun = time.process_time()
        with pytest.raises(UnreadablePicture, match="50 megapixels"):
            decoder.decoded(png(10_000, 5_001, bytes(100)))
        spent.append(time.process_time() - begun)
    assert spent[-1] < 1


def test_a_picture_that_is_an_archive_too_counts_as_the_picture(decoder: PictureDecoder) -> None:
    assert np.array_equal(decoder.decoded(polyglot()), decoder.decoded(noise(3)))


def test_no_process_that_met_a_picture_meets_another(decoder: PictureDecoder) -> None:
    decoder.decoded(noise(5))
    assert decoder._child is not None
    met = set()
    for number in range(5):  # the one that waits for the next picture
        met |= (waiting := children(decoder._child.pid))
        assert len(waiting) == 1
        decoder.decoded(noise(number))
    assert len(met) == 5


def children(parent: int) -> set[int]:
    """Wait for the processes of this parent that are not over."""
    for _ in range(500):
        found = set()
        for place in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                words = place.read_text().rpartition(")")[2].split()
                if int(words[1]) == parent and words[0] != "Z":
                    found.add(int(place.parent.name))
        if len(found) == 1:
            return found
        time.sleep(0.01)
    return found


def test_a_decoder_that_is_killed_is_one_lost_picture(decoder: PictureDecoder) -> None:
    before = decoder.decoded(noise(5))
    assert decoder._child is not None
    os.kill(decoder._child.pid, signal.SIGKILL)
    with pytest.raises(UnreadablePicture):
        decoder.decoded(noise(5))
    assert np.array_equal(decoder.decoded(noise(5)), before)


# --- read as columns ------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_zeros_and_keeps_its_row() -> None:
    table = frame_table(declared(trace=ARRAY), rows())
    (batch,) = table.batches(("photo", "trace", "label"))
    assert len(batch.people) == 3
    order = np.argsort([-line.sum() for line in batch.tensors["photo"].astype(int)])
    assert (batch.tensors["photo"][order[0]].sum() > 0, batch.tensors["photo"][order[1:]].sum()) == (True, 0)
    lines = sorted(batch.tensors["trace"].tolist())
    assert lines == [[0.0] * 6, [0.0] * 6, [0.5, 1.0, 0.0, 1.0, 0.0, 0.75]]
    assert looked_at(table)["columns"]["photo"] == {limits.NONE: 1, limits.BROKEN: 1}
    assert looked_at(table)["columns"]["trace"] == {limits.NONE: 1, limits.UNLIKE: 1}


@pytest.mark.parametrize("unit", ["person", "event"])
def test_files_that_rows_of_several_people_name_are_counted_for_the_steward(unit: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(noise(3))
    columns: dict[str, Any] = {"photo": PHOTO, "label": {"type": "string", "values": ["x"]}}
    if unit == "person":
        columns["who"] = {"type": "string", "key": True}
    body = {"unit": unit, "columns": columns, **({"max_rows_per_unit": 2} if unit == "person" else {})}
    named = ["a.png", "a.png", "b.png", "b.png", None, None]
    whose = ["ana", "ana", "ana", "ben", "ben", "cem"]
    held = {"photo": named, "label": ["x"] * 6, **({"who": whose} if unit == "person" else {})}
    pd.DataFrame(held).to_parquet(tmp_path / "rows.parquet")
    source = {"kind": "parquet", "path": "rows.parquet", "files": "."}
    with contextlib.closing(table_of(schema_of(body), source, folder=tmp_path)) as table:
        assert looked_at(table)["columns"]["photo"] == {limits.NONE: 2, limits.SHARED: 1 if unit == "person" else 2}


@pytest.mark.slow
def test_files_bytes_and_frames_give_the_same_rows(tmp_path: Path) -> None:
    inside = put(tmp_path, 20)
    (inside / "3.png").write_bytes(b"broken")
    frame = pd.read_csv(tmp_path / "rows.csv")
    frame["photo"] = [(tmp_path / "files" / path).read_bytes() for path in frame["photo"]]
    with duckdb.connect() as opened:
        opened.register("frame", frame)
        opened.execute(f"COPY (SELECT who, photo::BLOB AS photo, label FROM frame) TO '{tmp_path}/rows.parquet'")
    schema = declared()
    tables = [
        table_of(schema, SOURCE, folder=tmp_path),
        table_of(schema, {"kind": "parquet", "path": "rows.parquet"}, folder=tmp_path),
        frame_table(schema, frame),
    ]
    found = []
    for table in tables:
        pieces = list(table.batches(("photo", "label"), rows=7))
        found.append(
            sorted((b.tensors["photo"][i].tobytes(), b.numbers[i, 1]) for b in pieces for i in range(len(b.people)))
        )
        table.close()
    assert len(found[0]) == 20
    assert found[0] == found[1] == found[2]


def test_arrays_in_files_and_as_text_give_the_same_rows(tmp_path: Path) -> None:
    schema = schema_of({"unit": "event", "columns": {"trace": ARRAY}})
    (tmp_path / "rows.csv").write_text(
        'trace\n"[[0, 1, -1], [0.5, 2, 0]]"\n"[0, 1, -1, 0.5, 2, 0]"\n[nonsense\n"[NaN]"\n' + "[" * 5000 + "\n"
    )
    with duckdb.connect() as opened:
        made = "SELECT [[0, 1, -1], [0.5, 2, 0]]::DOUBLE[][] AS trace UNION ALL SELECT [[1]] UNION ALL SELECT NULL"
        opened.execute(f"COPY ({made}) TO '{tmp_path}/rows.parquet'")
    wanted = [0.5, 1.0, 0.0, 0.75, 1.0, 0.5]
    for name, lines in (
        ("csv", [[0.0] * 6, [0.0] * 6, [0.0] * 6, wanted, wanted]),
        ("parquet", [[0.0] * 6, [0.0] * 6, wanted]),
    ):
        table = table_of(schema, {"kind": name, "path": f"rows.{name}"}, folder=tmp_path)
        (batch,) = table.batches(("trace",))
        assert sorted(batch.tensors["trace"].tolist()) == lines
        table.close()


def test_of_one_person_only_as_many_rows_as_declared_are_decoded(tmp_path: Path) -> None:
    put(tmp_path, 6)
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace("p1,", "p0,").replace("p2,", "p0,"))
    table = table_of(declared(), SOURCE, folder=tmp_path)
    (batch,) = table.batches(("photo", "label"))
    assert len(batch.people) == 4
    table.close()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_whatever_one_person_sends_changes_the_row_of_nobody_else(tmp_path: Path, name: str) -> None:
    inside = put(tmp_path, 5)

    def lines() -> list[bytes]:
        table = table_of(declared(), SOURCE, folder=tmp_path)
        (batch,) = table.batches(("photo", "label"))
        table.close()
        return sorted(line.tobytes() for line in batch.tensors["photo"])

    before = lines()
    (inside / "2.png").write_bytes(HOSTILE[name])
    after = lines()
    assert len(after) == len(before)
    assert sum(a not in after for a in before) <= 1


@pytest.mark.slow
def test_the_check_accounts_for_every_picture_on_this_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = put(tmp_path, 6)
    (inside / "1.png").write_bytes(b"broken")
    (inside / "2.png").unlink()
    (inside / "3.png").unlink()
    (inside / "3.png").symlink_to("4.png")
    (tmp_path / "source.toml").write_text('kind = "csv"\npath = "rows.csv"\nfiles = "files"\n')
    (tmp_path / "schema.toml").write_text(
        'unit = "person"\n[columns.who]\ntype = "string"\nkey = true\n[columns.photo]\ntype = "image"\nheight = 8\n'
        'width = 8\nchannels = 3\n[columns.label]\ntype = "integer"\nvalues = [0, 1]\n'
    )
    line = ("--home", "site", "--schema", "schema.toml", "--source", "source.toml", "--epsilon", "1")
    assert exit_status("dataset", "create", "scans", *line, "--check") == 0
    said = capsys.readouterr().out
    assert "For your eyes only: 6 rows." in said
    for counted in (f"1 {limits.BROKEN}", f"1 {limits.ABSENT}", f"1 {limits.NOT_PLAIN}"):
        assert counted in said
    assert exit_status("dataset", "show", "scans", "--home", "site") == 0
    assert "photo: image, brought to 8 x 8, in colour" in capsys.readouterr().out


def test_a_proposal_leaves_the_size_of_pictures_and_arrays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as opened:
        made = "SELECT 'a' AS patient, ''::BLOB AS scan, [1.5] AS trace, 'x.png' AS photo"
        opened.execute(f"COPY ({made}) TO '{tmp_path}/rows.parquet'")
    assert exit_status("dataset", "propose", "rows.parquet") == 0
    schema = (tmp_path / "rows.schema.toml").read_text()
    assert '[columns.scan]\ntype = "image"\nheight = "?"' in schema
    assert '[columns.trace]\ntype = "array"\nshape = "?"' in schema
    assert '[columns.photo]\ntype = "?"   # usually image\nheight = "?"' in schema
    assert 'files = "files"' in (tmp_path / "rows.source.toml").read_text()
