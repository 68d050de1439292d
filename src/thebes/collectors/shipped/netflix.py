"""Episodes and films watched on Netflix, from the copy of an account's data that Netflix sends."""

from __future__ import annotations

import re
from collections.abc import Mapping

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.delimited import records
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, words
from thebes.privacy.faults import Mistake

_WANTED = re.compile(r"(^|/)ViewingActivity\.csv$", re.IGNORECASE)
_SOUGHT = "CONTENT_INTERACTION/ViewingActivity.csv, which Netflix sends to those who ask for their personal information"
_NEEDED = ("Profile Name", "Start Time", "Duration", "Title", "Supplemental Video Type")
#: how titles name a season or an episode, in the languages of profiles
_EPISODE = re.compile(
    r": (Season|Series|Limited Series|Part|Volume|Book|Chapter|Collection|Staffel|Teil|Miniserie|Saison|Partie|"
    r"Mini-série|Temporada|Parte|Stagione|Seizoen|Deel|Sezon|Część|Sæson|Säsong|Sesong|Kausi|Сезон)\b"
    r"|\((Episode|Folge|Épisode|Episodio|Episódio|Aflevering|Odcinek|Afsnit|Avsnitt|Jakso|Эпизод)\b"
    r"|シーズン|エピソード|시즌|에피소드",
    re.IGNORECASE,
)


class Netflix(Collector):
    """One profile of an account; the others are other people's."""

    name = "netflix"
    version = 1
    description = "When you watch Netflix and for how long."
    reads = (
        "ViewingActivity.csv in the .zip that Netflix sends, or that file. Of what your profile watched: when, how "
        "long and whether an episode or a film, without trailers; titles only with --titles. Never other profiles, "
        "devices or countries."
    )
    tables = (
        table(
            "views",
            "What your profile watched",
            at=("timestamp", "beginning, in UTC"),
            minutes=("float", "how long"),
            kind=("string", "episode where the title names a season or an episode, else film"),
            title=("string", "empty unless installed with --titles"),
        ),
    )
    options = (
        Option("file", "the .zip of Netflix, its folder, or ViewingActivity.csv", "path", required=True, several=True),
        Option("profile", "the name of your profile, as it is on Netflix", required=True),
        Option("titles", "keep the titles of what you watched", "flag"),
    )

    def collect(self, session: Session) -> None:
        mine = 0
        for file in session.options["file"]:
            for member in members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT):
                for line, row in records(member, _NEEDED):
                    if row["Profile Name"].strip() == session.options["profile"].strip():
                        mine += 1
                        _view(session, member, row, line)
        if not mine:
            raise Mistake("--profile", "names no profile of this file; it must be spelled as it is on Netflix")


def _view(session: Session, member: SourceFile, row: Mapping[str, str], line: int) -> None:
    if row["Supplemental Video Type"].strip():
        session.leave_out("trailers and previews")
        return
    at, minutes = moment(row["Start Time"]), _minutes(row["Duration"])
    if at is None or minutes is None:
        raise broken(member.name, line, "has no time or no length that can be read")
    kind = "episode" if _EPISODE.search(row["Title"][:2000]) else "film"
    title = words(row["Title"], 500) if session.options["titles"] else None
    session.insert("views", {"at": at, "minutes": minutes, "kind": kind, "title": title}, key=[at, minutes, kind])


def _minutes(text: str) -> float | None:
    """Read hours, minutes and seconds."""
    found = re.fullmatch(r"(\d{1,4}):([0-5]\d):([0-5]\d)", text.strip())
    return None if found is None else int(found[1]) * 60 + int(found[2]) + int(found[3]) / 60
