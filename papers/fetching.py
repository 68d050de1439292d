"""Published data from where somebody put them, by address, into the folder that experiments read.

Only what the experiments were written for is kept: a file is made from what lies at its place, or in a folder where
people who have no network put the same, and compared with its SHA-256 (`checksums`) before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from papers import converting
from papers.checksums import is_published
from papers.datasets import opened_in
from papers.places import Published
from thebes.privacy.faults import Mistake, Refusal

SECONDS, LEAST_RATE = 60.0, 2**17  #: until a file begins to come, and bytes a second from then on


class NotFetched(Refusal):
    """A published file could not be had, or was another one than its checksum says; nothing was written."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} was not fetched: {why}")
        self.name = name
        self.why = why


def fetch(one: Published, folder: Path, *, lying: Path | None = None) -> bool:
    """Fetch a file, and return whether anything was fetched. A file that is there and right stays as it is, any other
    is written whole or not at all. `lying` is a folder in which to look, instead of the network."""
    if opened_in(folder, one.name) is not None:
        return False
    content = _downloaded(one) if lying is None else _found(one, lying)
    path = folder / one.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        raise Mistake("--data", f"cannot be written ({error.strerror}); name a folder that can") from None
    return True


def _downloaded(one: Published) -> bytes:
    """From the first address at which the published file lies."""
    if one.by_hand:
        raise NotFetched(one.name, one.by_hand)
    for address in one.place.at[:-1]:
        try:
            return _made(one, lambda path, at=address: _answer(one, f"{at}/{path}"))  # type: ignore[misc]
        except NotFetched:
            continue
    return _made(one, lambda path: _answer(one, f"{one.place.at[-1]}/{path}"))


def _found(one: Published, lying: Path) -> bytes:
    """From a folder: the file itself, or what it is made from."""
    if not lying.is_dir():
        raise Mistake("--from", "names no folder")
    try:
        finished = lying / Path(one.name).name
        if finished.is_file() and is_published(one.name, content := finished.read_bytes()):
            return content
        return _made(one, lambda path: _lying(one, lying, Path(path).name))
    except OSError as error:
        raise Mistake("--from", f"cannot be read ({error.strerror})") from None


def _made(one: Published, get: Callable[[str], bytes]) -> bytes:
    parts: Sequence[bytes] = [get(path) for path in one.paths]
    try:
        content = one.made(parts)
    except ImportError:
        raise Mistake("pyarrow", f"is needed to write {one.name}: pip install pyarrow") from None
    except converting.BROKEN:
        raise NotFetched(one.name, "what lies there now cannot be unpacked") from None
    if not is_published(one.name, content):
        raise NotFetched(one.name, "what lies there now is not the published file (its SHA-256 differs)")
    return content


def _lying(one: Published, lying: Path, name: str) -> bytes:
    """By its own name, or the one that a browser gives a repository's archive."""
    for path in (lying / name, *sorted(lying.glob(f"*-{name}"))):
        if path.is_file():
            if path.stat().st_size > one.most_bytes:
                raise NotFetched(one.name, f"{name} is far too large")
            return path.read_bytes()
    raise NotFetched(one.name, f"the folder holds no {name}")


def _answer(one: Published, address: str) -> bytes:
    import httpx

    from thebes.confinement import answers

    direct = answers.Direct(trust_env=True)
    seconds = SECONDS + one.most_bytes / LEAST_RATE
    try:
        with answers.client(transport=direct, seconds=seconds, most_bytes=one.most_bytes, timeout=SECONDS) as http:
            answer = http.get(address, follow_redirects=True)
    except answers.TooMuch:
        raise NotFetched(one.name, "what lies there now is far too large") from None
    except httpx.HTTPError:
        raise NotFetched(one.name, "its place cannot be reached in time; is there a network?") from None
    if answer.status_code != 200:
        raise NotFetched(one.name, f"its place answers with status {answer.status_code}")
    return answer.content
