"""YouTube, Spotify and Netflix, on exports made here to the formats that they publish, in three languages."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from thebes.collectors.session import Outcome
from thebes.collectors.shipped.netflix import Netflix
from thebes.collectors.shipped.spotify import Spotify
from thebes.collectors.shipped.youtube import Youtube
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


def packed(path: Path, files: Mapping[str, str]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return str(path)


def everything(home: HomeOnDisk) -> str:
    return json.dumps(home.store.export(), ensure_ascii=False)


# --- youtube --------------------------------------------------------------------------------------------


def viewed(title: str, at: str, *, header: str = "YouTube", **more: Any) -> dict[str, Any]:
    address = {"titleUrl": "https://www.youtube.com/watch?v=abc"} if "titleUrl" not in more else {}
    return {"header": header, "title": title, "time": at, "products": ["YouTube"], **address, **more}


CHANNEL = [{"name": "Käptn Blåbär", "url": "https://www.youtube.com/channel/UC0"}]
TAKEOUTS = {
    "Takeout/YouTube and YouTube Music/history/watch-history.json": ("Watched a secret", "From Google Ads"),
    "Takeout/YouTube und YouTube\u00a0Music/Verlauf/Wiedergabeverlauf.json": ("a secret angesehen", "Von Google Ads"),
    "Takeout/YouTube en YouTube Music/geschiedenis/kijkgeschiedenis.json": ("a secret bekeken", "Van Google Ads"),
    "Takeout/YouTube e YouTube Music/histo\u0301rico/histo\u0301rico-de-visualizac\u0327a\u0303o.json": (
        "Você assistiu a secret",
        "Dos anúncios do Google Ads",
    ),
}


def takeout(name: str) -> dict[str, str]:
    watched, advertised = TAKEOUTS[name]
    post = "https://www.youtube.com/post/Ug"
    history = [
        viewed(watched, "2026-03-01T08:00:00.123Z", subtitles=CHANNEL),
        viewed(watched, "2026-03-01T09:00:00.123Z", header="YouTube Music", subtitles=CHANNEL),
        viewed(watched, "2026-03-01T09:30:00Z", details=[{"name": advertised}]),
        viewed(watched, "2026-03-01T10:00:00.5+02:00", titleUrl=None),
        viewed(watched, "2026-03-01T11:00:00Z", titleUrl=post),
        viewed("a search", "2026-03-01T12:00:00Z", titleUrl="https://www.youtube.com/results?search_query=secret"),
    ]
    searches = [viewed("a search", "2026-03-02T12:00:00Z", titleUrl="https://www.youtube.com/results?search_query=x")]
    folder = name.rpartition("/")[0]
    return {
        name: json.dumps(history, ensure_ascii=False),
        f"{folder}/search-history.json": json.dumps(searches),
        f"{folder}/Suchverlauf.json": "{broken",
        "Takeout/archive_browser.html": "",
    }


@pytest.mark.parametrize("name", TAKEOUTS)
def test_what_was_watched_is_known_in_any_language_and_never_by_its_title(
    home: HomeOnDisk, tmp_path: Path, name: str
) -> None:
    file = packed(tmp_path / "takeout.zip", takeout(name))
    assert home.collect(Youtube(), "--file", file) == Outcome(5, 0, {"searches": 1})
    assert home.collect(Youtube(), "--file", file) == Outcome(0, 5, {"searches": 1})
    assert [(row["at"], row["kind"], row["channel"]) for row in home.rows("youtube", "views")] == [
        ("2026-03-01 08:00:00.123000", "video", None),
        ("2026-03-01 09:00:00.123000", "music", None),
        ("2026-03-01 09:30:00", "advertisement", None),
        ("2026-03-01 08:00:00.500000", "removed", None),
        ("2026-03-01 11:00:00", "post", None),
    ]
    for private in ("secret", "search", "abc", "Blåbär"):
        assert private not in everything(home)


def test_channels_are_kept_when_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    (name, *_) = TAKEOUTS
    home.collect(Youtube(), "--channel", "--file", packed(tmp_path / "takeout.zip", takeout(name)))
    assert [row["channel"] for row in home.rows("youtube", "views")][:3] == ["Käptn Blåbär", "Käptn Blåbär", None]


def test_who_chose_html_at_takeout_hears_what_to_choose(home: HomeOnDisk, tmp_path: Path) -> None:
    file = packed(tmp_path / "takeout.zip", {"Takeout/YouTube/history/watch-history.html": "<html>"})
    with pytest.raises(Mistake, match=r"takeout\.zip: .*watch-history\.json.*choose JSON"):
        home.collect(Youtube(), "--file", file)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[\n{"header": "YouTube", "time": "secret"}\n]', 2),
        ('[\n{"header": "YouTube", "time": "2026-03-01T08:00:00Z"},\n{"secret": 1}]', 3),
        ('[\n\n"secret"]', 3),
        ('[\n{"header": "YouTube",\n "time": secret', 3),
        ('{"secret": [{"header": "YouTube"}]}', 1),
    ],
)
def test_damage_names_file_and_line_and_not_what_stands_there(
    home: HomeOnDisk, tmp_path: Path, text: str, line: int
) -> None:
    (tmp_path / "watch-history.json").write_text(text)
    with pytest.raises(Mistake, match=rf"watch-history\.json, line {line}:") as told:
        home.collect(Youtube(), "--file", str(tmp_path / "watch-history.json"))
    assert "secret" not in str(told.value)
    assert home.rows("youtube", "views") == []


# --- spotify --------------------------------------------------------------------------------------------


def played(at: str, milliseconds: int, **more: Any) -> dict[str, Any]:
    none = dict.fromkeys(("spotify_track_uri", "spotify_episode_uri", "episode_show_name", "audiobook_uri"))
    person = {"username": "ana99", "ip_addr": "203.0.113.7", "platform": "Ana's phone", "conn_country": "GR"}
    said = {"shuffle": True, "skipped": None, "offline": False, "incognito_mode": False}
    return {"ts": at, "ms_played": milliseconds, **person, **none, **said, **more}


def song(at: str, artist: str, **more: Any) -> dict[str, Any]:
    names = {"master_metadata_track_name": "a secret", "master_metadata_album_artist_name": artist}
    return played(at, 61_500, spotify_track_uri="spotify:track:1", **names, **more)


HISTORIES = {
    "Spotify Extended Streaming History/Streaming_History_Audio_2024-2026_0.json": [
        song("2026-03-01T08:00:00Z", "Τρύπες", skipped=True),
        song("2026-03-01T08:10:00Z", "Die Ärzte", incognito_mode=True),
    ],
    "MyData/endsong_1.json": [played("2019-03-01T08:00:00Z", 5000, spotify_episode_uri="e", episode_show_name="Ça va")],
    "MyData/Streaming_History_Video_2020.json": [
        played("2020-03-01T08:00:00Z", 7000, audiobook_uri="b", audiobook_title="Das Boot"),
        played("2020-03-02T08:00:00Z", 0),
    ],
}


def test_plays_of_all_pieces_without_who_and_where(home: HomeOnDisk, tmp_path: Path) -> None:
    others = {"MyData/Userdata.json": "{broken", "MyData/SearchQueries.json": "{broken"}
    pieces = {name: json.dumps(history, ensure_ascii=False, indent=2) for name, history in HISTORIES.items()}
    file = packed(tmp_path / "my_spotify_data.zip", {**pieces, **others})
    assert home.collect(Spotify(), "--file", file) == Outcome(4, 0, {"in a private session": 1})
    assert home.collect(Spotify(), "--file", file) == Outcome(0, 4, {"in a private session": 1})
    rows = home.rows("spotify", "plays")
    assert [(row["at"][:10], row["seconds"], row["kind"], row["artist"]) for row in rows] == [
        ("2020-03-01", 7.0, "audiobook", None),
        ("2020-03-02", 0.0, "other", None),
        ("2019-03-01", 5.0, "episode", None),
        ("2026-03-01", 61.5, "track", None),
    ]
    assert (rows[3]["skipped"], rows[3]["shuffle"], rows[3]["offline"]) == (True, True, False)
    assert rows[0]["skipped"] is None
    for private in ("secret", "ana99", "203.0", "phone", "Τρύπες", "Ça va"):
        assert private not in everything(home)


def test_artists_and_shows_are_kept_when_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    pieces = {name: json.dumps(history) for name, history in HISTORIES.items()}
    home.collect(Spotify(), "--artist", "--file", packed(tmp_path / "my_spotify_data.zip", pieces))
    assert [row["artist"] for row in home.rows("spotify", "plays")] == ["Das Boot", None, "Ça va", "Τρύπες"]


def test_the_short_history_is_not_the_extended_one(home: HomeOnDisk, tmp_path: Path) -> None:
    short = json.dumps([{"endTime": "2026-03-01 08:00", "artistName": "secret", "msPlayed": 1}])
    file = packed(tmp_path / "my_spotify_data.zip", {"MyData/StreamingHistory0.json": short})
    with pytest.raises(Mistake, match=r"it looks for Streaming_History_Audio_.*apart from the account's data"):
        home.collect(Spotify(), "--file", file)
    (tmp_path / "StreamingHistory0.json").write_text(f"\n{short}")
    with pytest.raises(Mistake, match=r"StreamingHistory0\.json, line 2: has no time") as told:
        home.collect(Spotify(), "--file", str(tmp_path / "StreamingHistory0.json"))
    assert "secret" not in str(told.value)


# --- netflix --------------------------------------------------------------------------------------------

COLUMNS = (
    "Profile Name",
    "Start Time",
    "Duration",
    "Attributes",
    "Title",
    "Supplemental Video Type",
    "Device Type",
    "Bookmark",
    "Latest Bookmark",
    "Country",
)


def activity(*rows: tuple[str, str, str, str, str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for profile, at, lasted, title, extra in rows:
        writer.writerow([profile, at, lasted, "", title, extra, "Ana's TV", "00:42:10", "Latest", "GR (Greece)"])
    return text.getvalue()


VIEWS = activity(
    ("Ana", "2026-03-01 20:00:00", "00:42:30", 'Secret: Season 1: "One", or so (Episode 1)', ""),
    ("Ana", "2026-03-02 20:00:00", "00:42:30", "Secret: Staffel 2: Zwei (Folge 2)", ""),
    ("Ana", "2026-03-03 20:00:00", "01:00:00", "Secret : Saison 3 (Épisode 3)", ""),
    ("Ana", "2026-03-04 20:00:00", "02:00:00", "Secret", ""),
    ("Ana", "2026-03-05 20:00:00", "00:00:30", "Secret_hook_primary_16x9", "HOOK"),
    ("Bob", "not even a time", "x", "Bob's secret", ""),
)


def test_views_of_one_profile_and_no_trailers(home: HomeOnDisk, tmp_path: Path) -> None:
    files = {
        "netflix-report/CONTENT_INTERACTION/ViewingActivity.csv": VIEWS,
        "netflix-report/PROFILES/Profiles.csv": "",
    }
    arguments = ("--file", packed(tmp_path / "netflix-report.zip", files), "--profile", "Ana")
    left_out = {"trailers and previews": 1}
    assert home.collect(Netflix(), *arguments) == Outcome(4, 0, left_out)
    assert home.collect(Netflix(), *arguments, "--titles") == Outcome(0, 4, left_out)
    assert [(row["at"], row["minutes"], row["kind"], row["title"]) for row in home.rows("netflix", "views")] == [
        ("2026-03-01 20:00:00", 42.5, "episode", None),
        ("2026-03-02 20:00:00", 42.5, "episode", None),
        ("2026-03-03 20:00:00", 60.0, "episode", None),
        ("2026-03-04 20:00:00", 120.0, "film", None),
    ]
    for private in ("ecret", "Bob", "TV", "Greece"):
        assert private not in everything(home)


def test_titles_are_kept_when_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "ViewingActivity.csv").write_text(VIEWS, encoding="utf-8-sig")
    home.collect(Netflix(), "--titles", "--file", str(tmp_path / "ViewingActivity.csv"), "--profile", "Ana")
    assert home.rows("netflix", "views")[1]["title"] == "Secret: Staffel 2: Zwei (Folge 2)"


def test_a_profile_that_is_not_there_is_said_without_naming_the_others(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "ViewingActivity.csv").write_text(VIEWS)
    with pytest.raises(Mistake, match="--profile: names no profile") as told:
        home.collect(Netflix(), "--file", str(tmp_path / "ViewingActivity.csv"), "--profile", "ana")
    assert "Ana" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (activity(("Ana", "2026-03-01 20:00:00", "long", "Secret", "")), "line 2: has no time or no length"),
        (VIEWS + "Ana,Secret\n", "line 8: has 2 fields"),
        (VIEWS + 'Ana,"Sec"ret\n', "line 8: is not CSV"),
        ("Title,Date\nSecret,3/1/26\n", "has no line with the columns Profile Name"),
    ],
)
def test_a_damaged_activity_is_named_with_its_line(home: HomeOnDisk, tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "ViewingActivity.csv").write_text(text)
    with pytest.raises(Mistake, match=rf"ViewingActivity\.csv(: |, ){where}") as told:
        home.collect(Netflix(), "--file", str(tmp_path / "ViewingActivity.csv"), "--profile", "Ana")
    assert "ecret" not in str(told.value)
    assert home.rows("netflix", "views") == []
