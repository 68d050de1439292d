"""Chats of WhatsApp in the layouts of its apps, made here: two telephones and a dozen ways to write a date."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thebes.collectors.session import Outcome
from thebes.collectors.shipped.whatsapp import Whatsapp
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk

NEWEST = "the newest day, which may not be over"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


def days(home: HomeOnDisk) -> list[tuple[Any, ...]]:
    rows = home.rows("whatsapp", "days")
    return [(row["day"][:10], row["chats"], row["sent"], row["received"], row["words"]) for row in rows]


#: how 28 February and 3 March 2026, 23:05, begin a line
LAYOUTS = {
    "Android, English, American": ("2/28/26, 11:05\u202fPM - ", "3/3/26, 11:05\u202fPM - "),
    "Android, English, British": ("28/02/2026, 23:05 - ", "03/03/2026, 23:05 - "),
    "Android, German": ("28.02.26, 23:05 - ", "03.03.26, 23:05 - "),
    "Android, French": ("28/02/2026 à 23:05 - ", "03/03/2026 à 23:05 - "),
    "Android, Spanish": ("28/2/26, 11:05 p. m. - ", "3/3/26, 11:05 p. m. - "),
    "Android, Dutch": ("28-02-2026 23:05 - ", "03-03-2026 23:05 - "),
    "Android, Swedish": ("2026-02-28 23:05 - ", "2026-03-03 23:05 - "),
    "Android, Chinese": ("2026/2/28 下午11:05 - ", "2026/3/3 下午11:05 - "),
    "Android, Hungarian": ("2026. 02. 28. 23:05 - ", "2026. 03. 03. 23:05 - "),
    "Android, Arabic": (
        "٢٨\u200f/٢\u200f/٢٠٢٦، ١١:٠٥ م - ",
        "٣\u200f/٣\u200f/٢٠٢٦، ١١:٠٥ م - ",
    ),
    "iPhone, English, American": ("[2/28/26, 11:05:07\u202fPM] ", "[3/3/26, 11:05:07\u202fPM] "),
    "iPhone, German": ("[28.02.26, 23:05:07] ", "[03.03.26, 23:05:07] "),
    "iPhone, Greek": ("[28/2/26, 11:05:07 μ.μ.] ", "[3/3/26, 11:05:07 μ.μ.] "),
    "iPhone, Finnish": ("[28.2.2026 klo 23.05.07] ", "[3.3.2026 klo 23.05.07] "),
    "iPhone, Japanese": ("[2026/02/28 23:05:07] ", "[2026/03/03 23:05:07] "),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_messages_of_a_day_are_counted_in_every_layout(home: HomeOnDisk, tmp_path: Path, layout: str) -> None:
    first, second = LAYOUTS[layout]
    chat = (
        f"{first}Bob: \u200eMessages and calls are end-to-end encrypted.\n"
        f"{first}Bob: a secret: of mine\nwith a line more\n"
        f"{first}Ána: two words\nand three more\n"
        f"\u200e{first}Ána: \u200e<attached: 0001-PHOTO.jpg>\n"
        f"{second}Bob: later\n"
    )
    (tmp_path / "_chat.txt").write_text(chat, encoding="utf-8")
    arguments = ("--file", str(tmp_path / "_chat.txt"), "--me", "Ána")
    assert home.collect(Whatsapp(), *arguments) == Outcome(1, 0, {NEWEST: 1})
    assert home.collect(Whatsapp(), *arguments) == Outcome(0, 1, {NEWEST: 1})
    assert days(home) == [("2026-02-28", 1, 2, 1, 5)]
    kept = json.dumps(home.store.export(), ensure_ascii=False)
    assert "2026-02-28T" not in kept
    kept = re.sub(r"T\d\d:\d\d:\d\d", "", kept)  # when it was collected, which may be at any time of a day
    for private in ("Bob", "Ána", "secret", "three", "23:05"):
        assert private not in kept


NAMES = ("WhatsApp Chat with Bob.txt", "WhatsApp Chat mit Bob.txt", "Discussion WhatsApp avec Bob.txt")


def test_chats_in_archives_of_three_languages_are_one_diary(home: HomeOnDisk, tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            archive.writestr(
                name, f"14.01.26, 10:00 - Bob: {number}\n14.01.26, 10:01 - Ana: x\n15.01.26, 10:00 - Bob: x\n"
            )
            archive.writestr("a letter of Bob's.txt", "14.01.26, 10:00 - Ana: not a chat\n")
    files = [word for number in range(3) for word in ("--file", str(tmp_path / f"{number}.zip"))]
    assert home.collect(Whatsapp(), *files, "--me", "Ana").inserted == 1
    assert days(home) == [("2026-01-14", 3, 3, 3, 3)]


def test_a_chat_that_is_given_twice_counts_once(home: HomeOnDisk, tmp_path: Path) -> None:
    chat = "14.01.26, 10:00 - Ana: hello\n15.01.26, 10:00 - Bob: x\n"
    for name in ("_chat.txt", "WhatsApp Chat.txt"):
        (tmp_path / name).write_text(chat)
    outcome = home.collect(Whatsapp(), "--file", str(tmp_path), "--me", "Ana")
    assert outcome.left_out == {NEWEST: 1, "a chat that was given twice": 1}
    assert days(home) == [("2026-01-14", 1, 1, 0, 1)]


def test_a_longer_export_adds_the_days_that_are_new(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "_chat.txt"
    chat = "14.01.26, 10:00 - Ana: hello\n15.01.26, 10:00 - Bob: x\n"
    for more in ("", "15.01.26, 11:00 - Bob: y\n16.01.26, 10:00 - Bob: z\n"):
        file.write_text(chat + more)
        home.collect(Whatsapp(), "--file", str(file), "--me", "Ana")
    assert days(home) == [("2026-01-14", 1, 1, 0, 1), ("2026-01-15", 1, 0, 2, 0)]


def test_the_order_of_dates_is_what_the_chat_shows_or_is_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "_chat.txt"
    # day first, this goes back from March to February; month first, it goes on
    file.write_text("2/3/26, 10:00 - Ana: a\n3/2/26, 10:00 - Ana: b\n4/1/26, 10:00 - Ana: c\n")
    home.collect(Whatsapp(), "--file", str(file), "--me", "Ana")
    assert [day for day, *_ in days(home)] == ["2026-02-03", "2026-03-02"]
    file.write_text("2/3/25, 10:00 - Ana: a\n3/3/25, 10:00 - Ana: b\n")
    with pytest.raises(Mistake, match="--dates: is needed"):
        home.collect(Whatsapp(), "--file", str(file), "--me", "Ana")
    home.collect(Whatsapp(), "--file", str(file), "--me", "Ana", "--dates", "dmy")
    assert days(home)[-1][0] == "2025-03-02"
    with pytest.raises(Mistake, match="--dates: must be"):
        home.collect(Whatsapp(), "--file", str(file), "--me", "Ana", "--dates", "later")


def test_a_chat_that_shows_its_order_speaks_for_one_that_does_not(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "WhatsApp one.txt").write_text("2/3/25, 10:00 - Ana: a\n3/3/25, 10:00 - Ana: b\n")
    (tmp_path / "WhatsApp two.txt").write_text("20/3/25, 10:00 - Ana: a\n")
    home.collect(Whatsapp(), "--file", str(tmp_path), "--me", "Ana")
    assert [day for day, *_ in days(home)] == ["2025-03-02", "2025-03-03"]


def test_who_spelled_their_name_otherwise_is_told(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "_chat.txt").write_text("14.01.26, 10:00 - Bob: hello\n")
    with pytest.raises(Mistake, match="--me: wrote nothing") as told:
        home.collect(Whatsapp(), "--file", str(tmp_path / "_chat.txt"), "--me", "Ana")
    assert "Bob" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", None),
        (b"\n\na secret\n", 3),
        (b"14.01.26, 10:00 - Ana: a\n14.01.26, 10:00 - Bob: secret \xff\n", 2),
        (b"14.01.26, 10:00 - Ana: a\n45.45.26, 10:00 - Bob: secret\n", 2),
        (b"14.01.1926, 10:00 - Ana: secret\n", 1),
    ],
)
def test_damage_names_file_and_line_and_nothing_of_the_chat(
    home: HomeOnDisk, tmp_path: Path, text: bytes, line: int | None
) -> None:
    (tmp_path / "_chat.txt").write_bytes(text)
    where = "" if line is None else f", line {line}"
    with pytest.raises(Mistake, match=rf"_chat\.txt{where}:") as told:
        home.collect(Whatsapp(), "--file", str(tmp_path / "_chat.txt"), "--me", "Ana")
    assert "secret" not in str(told.value)
    assert days(home) == []
