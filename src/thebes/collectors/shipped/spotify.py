"""Songs, episodes and audiobooks played, from the extended streaming history that Spotify sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, number, words
from thebes.collectors.stream_parser import items

_WANTED = re.compile(r"(^|/)(Streaming_History_(Audio|Video)_[^/]*|endsong(_\d+)?)\.json$", re.IGNORECASE)
_SOUGHT = (
    "Streaming_History_Audio_2019-2021_1.json and the like, or endsong_0.json: the extended streaming history, which "
    "Spotify sends apart from the account's data"
)
#: the field that holds an address where it is of this kind, and the one that says whose it is
_KINDS = {
    "track": ("spotify_track_uri", "master_metadata_album_artist_name"),
    "episode": ("spotify_episode_uri", "episode_show_name"),
    "audiobook": ("audiobook_uri", "audiobook_title"),
}

_SAID = ("skipped", "shuffle", "offline")


class Spotify(Collector):
    """One row for each time something was played; private sessions stay private."""

    name = "spotify"
    version = 1
    description = "When you listen on Spotify and for how long."
    reads = (
        "The extended streaming history (Streaming_History_Audio_*.json and _Video_, older endsong_*.json) in the .zip "
        "that Spotify sends, or those files. Of each time you listened: when it ended, how long it took, what kind it "
        "was, and whether skipped, shuffled or offline; the artist only with --artist. Never titles, your network "
        "address, user name, device or country, and nothing of private sessions."
    )
    tables = (
        table(
            "plays",
            "Each time something was played",
            at=("timestamp", "when it ended, in UTC"),
            seconds=("float", "how long it was played"),
            kind=("string", "track, episode, audiobook or other"),
            skipped=("boolean", "whether you skipped it; missing where Spotify does not say"),
            shuffle=("boolean", "whether in random order; missing where Spotify does not say"),
            offline=("boolean", "whether without a connection; missing where Spotify does not say"),
            artist=("string", "the artist or show; empty unless installed with --artist"),
        ),
    )
    options = (
        Option("file", "the .zip of Spotify, its folder, or one .json of it", "path", required=True, several=True),
        Option("artist", "keep the names of artists and shows", "flag"),
    )

    def collect(self, session: Session) -> None:
        for file in session.options["file"]:
            for member in members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT):
                for key, item, line in items(member.stream, member.name):
                    if key or not isinstance(item, dict):
                        raise broken(member.name, line, "is not an extended streaming history")
                    _play(session, member, item, line)


def _play(session: Session, member: SourceFile, item: Mapping[str, Any], line: int) -> None:
    at, lasted = moment(item.get("ts")), number(item.get("ms_played"))
    if at is None or lasted is None:
        raise broken(member.name, line, "has no time or no length that can be read")
    if item.get("incognito_mode") is True:
        session.leave_out("in a private session")
        return
    kind = next((kind for kind, (address, _) in _KINDS.items() if item.get(address)), "other")
    artist = words(item.get(_KINDS[kind][1]), 200) if session.options["artist"] and kind in _KINDS else None
    said = {name: value if isinstance(value := item.get(name), bool) else None for name in _SAID}
    row = {"at": at, "seconds": lasted / 1000, "kind": kind, **said, "artist": artist}
    session.insert("plays", row, key=[at, lasted, kind])
