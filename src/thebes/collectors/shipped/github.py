"""A person's activity on GitHub, from the archive that an account's settings export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, members, moment, words
from thebes.collectors.stream_parser import items

_WANTED = re.compile(
    r"(^|/)(issues|pull_requests|issue_comments|pull_request_reviews|pull_request_review_comments|commit_comments)"
    r"_\d{6}\.json$"
)
_SOUGHT = "issues_000001.json, pull_requests_000001.json and the like"
_COMMENTS = {
    "issue_comments": "issue",
    "pull_request_reviews": "review",
    "pull_request_review_comments": "review",
    "commit_comments": "commit",
}


class Github(Collector):
    """Issues, pull requests and comments as counts and times; texts are measured and not kept."""

    name = "github"
    version = 1
    description = "Your issues, pull requests and comments on GitHub."
    reads = (
        "The .tar.gz that GitHub makes of your account (Settings, Account, Export account data). When you wrote what, "
        "in which repository, how long it was and what became of it. Never the words, and nothing of other people's."
    )
    tables = (
        table(
            "issues",
            "Issues you opened; one that was closed since the last export is a further row",
            at=("timestamp", "opened, in UTC"),
            repository=("string", "owner/name"),
            length=("integer", "characters of its text"),
            closed_at=("timestamp", "in UTC; missing while it was open"),
        ),
        table(
            "pull_requests",
            "Pull requests you opened; one that ended since the last export is a further row",
            at=("timestamp", "opened, in UTC"),
            repository=("string", "owner/name"),
            length=("integer", "characters of its text"),
            closed_at=("timestamp", "in UTC; missing while it was open"),
            merged_at=("timestamp", "in UTC; missing unless it was accepted"),
            accepted=("boolean", "whether it was merged; missing while it was open"),
        ),
        table(
            "comments",
            "Comments and reviews you wrote",
            at=("timestamp", "in UTC"),
            repository=("string", "owner/name"),
            length=("integer", "characters of its text"),
            kind=("string", "issue, review or commit"),
        ),
    )
    options = (
        Option("file", "the .tar.gz, or the folder it was unpacked to", "path", required=True),
        Option("user", "your name on GitHub", required=True),
    )

    def collect(self, session: Session) -> None:
        for member in members(session.options["file"], lambda name: _WANTED.search(name) is not None, _SOUGHT):
            sort = _WANTED.search(member.name)
            if sort is None:
                raise broken(member.name, None, "is not an export of GitHub; name the .tar.gz or its folder")
            for _, item, line in items(member.stream, member.name):
                if not isinstance(item, dict):
                    raise broken(member.name, line, "is not a list of objects")
                if _last(item.get("user")).lower() == str(session.options["user"]).lower():
                    _insert(session, member, sort[2], item, line)


def _insert(session: Session, member: SourceFile, sort: str, item: Mapping[str, Any], line: int) -> None:
    at = moment(item.get("created_at") or item.get("submitted_at"))
    url = item.get("url")
    if at is None or not isinstance(url, str):
        raise broken(member.name, line, "has an entry without a time or an address")
    body = item.get("body")
    row: dict[str, Any] = {
        "at": at,
        "repository": _repository(item.get("repository"), url),
        "length": len(body) if isinstance(body, str) else 0,
    }
    if sort in _COMMENTS:
        session.insert("comments", {**row, "kind": _COMMENTS[sort]}, key=url[:2000])
        return
    closed = _moment(item.get("closed_at"))
    if sort == "issues":
        session.insert("issues", {**row, "closed_at": closed}, key=[url[:2000], closed])
        return
    merged = _moment(item.get("merged_at"))
    ended = merged is not None or closed is not None
    row |= {"closed_at": closed, "merged_at": merged, "accepted": (merged is not None) if ended else None}
    session.insert("pull_requests", row, key=[url[:2000], closed, merged])


def _moment(value: object) -> datetime | None:
    return moment(value) if isinstance(value, str) else None


def _repository(repository: object, url: str) -> str | None:
    """owner/name, from the repository's address or from that of the entry in it."""
    for text in (repository, url):
        if isinstance(text, str) and (found := re.match(r"https?://[^/]+/([^/]+/[^/]+)", text[:2000])):
            return words(found[1], 200)
    return None


def _last(address: object) -> str:
    """The name at the end of a user's address."""
    return address.rstrip("/").rpartition("/")[2] if isinstance(address, str) else ""
