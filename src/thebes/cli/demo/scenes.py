"""The scenes that `thebes demo` plays, of every kind, for so many people and these hospitals."""

from __future__ import annotations

from dataclasses import replace

from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.scene import MadeUpHospitals, MadeUpPeople, Scene, SiteScene

LEAST = 11  #: people, below which a coordinator releases nothing


def wanted(people: int) -> int:
    """Return how many must answer: a third of the people, more of a small crowd, and never more than would."""
    return max(LEAST, people // 3, min(100, people * 3 // 5))


def sharpness(people: int) -> float:
    """Return how many times the usual epsilon each of so many people pays, for the same sharpness."""
    return float(max(1, -(-100 // wanted(people))))


def scenes(people: int) -> list[Scene]:
    """Return every scene, those that cost least first, for so many people. A small crowd pays more for the same
    sharpness."""
    from thebes.simulation.population import SITES

    crowd = MadeUpPeople(sharpness(people), tuple(SITES))
    made = [scene for type_ in registry.people_types() for scene in registry.scenes(type_, crowd)]
    return [_counted(scene, people) for scene in sorted(made, key=_cost)]


def waiting(people: int) -> list[Scene]:
    """Return a task that only lacks the answer of whoever looks at the demo: one that trusts no server and has one
    phase."""
    return [scene for scene in scenes(people) if not scene.few and _lacks_one(registry.check(scene.document))][:1]


def _lacks_one(document: Document) -> bool:
    if not isinstance(document, PeopleDocument):
        return False
    return document.server == "untrusted" and document.phases == 1 and not document.endless


def site_scenes(hospitals: MadeUpHospitals) -> list[SiteScene]:
    """Return every scene of these hospitals, those that cost least first."""
    made = [scene for type_ in registry.site_types() for scene in registry.scenes(type_, hospitals)]
    return sorted(made, key=_cost)


def _cost(scene: Scene | SiteScene) -> float:
    return float(scene.document["epsilon"])


def _counted(scene: Scene, people: int) -> Scene:
    count = LEAST if scene.few else wanted(people)
    document = {**scene.document, "name": scene.name, "min_count": count}
    if registry.endless(document["type"]):  # it would never end, and everybody's rules agree to what is open
        document["max_count"] = count
    return replace(scene, document=document)
