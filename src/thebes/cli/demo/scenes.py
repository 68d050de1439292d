"""The scenes that `thebes demo` plays, of every kind, for so many people and these hospitals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypeVar

from thebes.privacy.faults import ThebesError
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.kind_failure import KindFailed, guarded
from thebes.tasks.scene import MadeUpHospitals, MadeUpPeople, Scene, SiteScene

LEAST = 11  #: people, below which a coordinator releases nothing

#: is told the type of a kind that cannot give its scenes, and why; the others go on without it
Failed = Callable[[str, KindFailed], None]
AnyScene = TypeVar("AnyScene", Scene, SiteScene)


def _raised(type_: str, failed: KindFailed) -> None:
    raise failed


def wanted(people: int) -> int:
    """Return how many must answer: a third of the people, more of a small crowd, and never more than would."""
    return max(LEAST, people // 3, min(100, people * 3 // 5))


def sharpness(people: int) -> float:
    """Return how many times the usual epsilon each of so many people pays, for the same sharpness."""
    return float(max(1, -(-100 // wanted(people))))


def scenes(
    people: int, failed: Failed = _raised, kinds: Collection[str] = (), *, helper: str | None = None
) -> list[Scene]:
    """Return every scene, those that cost least first, for so many people; of some kinds alone where they are named. A
    small crowd pays more for the same sharpness. `helper` is the hospital that runs a second server."""
    from thebes.simulation.population import SITES

    crowd = MadeUpPeople(sharpness(people), tuple(SITES), helper)
    return _given(_named(registry.people_types(), kinds), crowd, lambda scene: _counted(scene, people), failed)


def waiting(people: int) -> list[Scene]:
    """Return what only lacks the answer of whoever looks at the demo, those that cost least first: the one of one
    phase that costs least of all, and the one that costs least and trusts no server."""
    found = [scene for scene in scenes(people, lambda *_: None) if not scene.few and not scene.left_out]
    of_one = [(scene, _server(scene.document)) for scene in found]
    cheapest = [scene for scene, server in of_one if server][:1]
    alone = [scene for scene, server in of_one if server == "untrusted"][:1]
    return [*cheapest, *(scene for scene in alone if scene not in cheapest)]


def _server(whole: dict[str, Any]) -> str:
    """Name the server of a task that one more answer ends; empty where it is another task."""
    try:
        document: Document = registry.check(whole)
    except ThebesError:
        return ""
    one = isinstance(document, PeopleDocument) and document.phases == 1 and not document.endless
    return document.server if isinstance(document, PeopleDocument) and one else ""


def site_scenes(hospitals: MadeUpHospitals, failed: Failed = _raised, kinds: Collection[str] = ()) -> list[SiteScene]:
    """Return every scene of these hospitals, or those of some kinds, those that cost least first."""
    return _given(_named(registry.site_types(), kinds), hospitals, lambda scene: scene, failed)


def _named(types: Iterable[str], kinds: Collection[str]) -> list[str]:
    return [type_ for type_ in types if not kinds or type_ in kinds]


def _given(types: Iterable[str], players: Any, made: Callable[[AnyScene], AnyScene], failed: Failed) -> list[AnyScene]:
    found: list[tuple[float, AnyScene]] = []
    for type_ in types:
        try:
            with guarded(type_, "scene.py", may=(KindFailed,)):
                found += [(_cost(scene), made(scene)) for scene in registry.scenes(type_, players)]
        except KindFailed as failure:
            failed(type_, failure)
    return [scene for _, scene in sorted(found, key=itemgetter(0))]


def _cost(scene: Scene | SiteScene) -> float:
    return float(scene.document["epsilon"])


def _counted(scene: Scene, people: int) -> Scene:
    count = LEAST if scene.few else wanted(people)
    document = {**scene.document, "name": scene.name, "min_count": count}
    if registry.endless(document["type"]):  # it would never end, and everybody's rules agree to what is open
        document["max_count"] = count
    if "helper" in document:  # until when two servers keep what they hold
        document["expires_at"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    return replace(scene, document=document)
