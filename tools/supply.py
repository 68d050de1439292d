"""The parts of Thebes: its licences, its bill of materials, and the hashes of everything that is installed.

    python tools/supply.py licences            # a table; status 1 where one is unknown or would bind those who use it
    python tools/supply.py sbom > sbom.json    # CycloneDX 1.6: what `pip install thebes` brings, and what lies in it
    python tools/supply.py hashes              # whether constraints.hashed.txt names what constraints.txt does
    python tools/supply.py runtime             # what each container installs anew, into deploy/compose

The first two read what is installed here, reached from the project's own requirements; `--extra NAME` takes an optional
part along. The same installation gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINS, HASHED = ROOT / "constraints.txt", ROOT / "constraints.hashed.txt"
STATIC = ROOT / "src" / "thebes" / "web" / "static"
#: by version only: which of its builds is right depends on the machine
WITHOUT_HASHES = frozenset({"torch"})
#: the containers, and the optional parts that each needs; the first builds the package and is thrown away
CONTAINERS = {
    "build": (),
    "coordinator": ("coordinator", "postgres"),
    "site": ("site", "postgres", "mysql"),
}
_BINDING = re.compile(r"\b(AGPL|GPL)|Affero|GNU General Public", re.IGNORECASE)
_LONGEST = 60


@dataclass(frozen=True)
class Part:
    """One distribution that is installed, and what it needs itself."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"

    @property
    def binding(self) -> bool:
        """Return whether its licence would extend to what is built on it."""
        return bool(_BINDING.search(self.licence)) and "LGPL" not in self.licence.upper()


def parts(extras: Iterable[str] = (), *, root: str = "thebes") -> list[Part]:
    """Everything that the project needs here, by name, without the project itself."""
    found: dict[str, Part] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(root, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        name, wanted = asked
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is needed and not installed here; run: make check") from None
        needs = _needs(installed, wanted)
        waiting += needs
        before = found[name].needs if name in found else ()
        named = tuple(sorted({*before, *(need for need, _ in needs)}))
        found[name] = Part(name, installed.version, licence_of(installed), named)
    return [found[name] for name in sorted(found) if name != root]


def _needs(installed: Distribution, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    needed = []
    for line in installed.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            name = canonicalize_name(requirement.name)
            needed.append((str(name), frozenset(requirement.extras)))
    return needed


def licence_of(installed: Distribution) -> str:
    """Return what a distribution says of itself; nothing where it says nothing short."""
    told = installed.metadata
    if "License-Expression" in told:
        return told["License-Expression"]
    classified = [line.rpartition(" :: ")[2] for line in told.get_all("Classifier") or () if line.startswith("License")]
    classified = [name for name in classified if name != "OSI Approved"]
    if classified:
        return " OR ".join(sorted(classified))
    text = told["License"].strip() if "License" in told else ""
    return text if text and "\n" not in text and len(text) <= _LONGEST else ""


def vendored() -> list[dict[str, str]]:
    """Programs of others that lie in the package, as `vendored.json` names them; wrong ones stop this."""
    told: list[dict[str, str]] = json.loads((STATIC / "vendored.json").read_text(encoding="utf-8"))
    for each in told:
        if hashlib.sha256((STATIC / each["file"]).read_bytes()).hexdigest() != each["sha256"]:
            raise SystemExit(f"{each['file']} is not the {each['name']} {each['version']} that vendored.json names")
    return told


def pins(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name -> (version, hashes) of a file of pins."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        pinned, *hashes = line.split(" --hash=")
        if pinned.strip() and not pinned.startswith("#"):
            name, _, version = pinned.partition("==")
            found[str(canonicalize_name(name.strip()))] = (version.strip(), tuple(each.strip() for each in hashes))
    return found


def unhashed() -> list[str]:
    """Find what is wrong with the hashes: pins that are missing there, are others, or have none."""
    plain, hashed = pins(PINS), pins(HASHED)
    wrong = [f"{name} {plain[name][0]} has no hashes" for name in sorted(set(plain) - set(hashed) - WITHOUT_HASHES)]
    wrong += [f"{name} has hashes and no pin" for name in sorted(set(hashed) - set(plain))]
    for name in sorted(set(plain) & set(hashed)):
        version, hashes = hashed[name]
        if version != plain[name][0]:
            wrong.append(f"{name} is {plain[name][0]} in one file and {version} in the other")
        if not hashes or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes):
            wrong.append(f"{name} {version} has no hashes")
    return wrong


def runtime(container: str) -> str:
    """Return what a container installs, as pins with hashes: what its role needs, and nothing else."""
    root = "hatchling" if container == "build" else "thebes"
    needed = [part.name for part in parts(CONTAINERS[container], root=root)]
    needed += ["hatchling"] if container == "build" else []
    known = pins(HASHED)
    lines = [f"# The {container} container; written by `make runtime` from constraints.hashed.txt."]
    for name in sorted(set(needed)):
        version, hashes = known[str(canonicalize_name(name))]
        lines += [" \\\n    ".join([f"{name}=={version}", *(f"--hash={each}" for each in hashes)])]
    return "\n".join(lines) + "\n"


def runtime_file(container: str) -> Path:
    return ROOT / "deploy" / "compose" / f"constraints.runtime.{container}.txt"


def bill(extras: Iterable[str] = (), *, moment: int | None = None) -> dict[str, Any]:
    """Return the bill of materials as CycloneDX has it; `moment` (seconds since 1970) is when it was made."""
    found, own = parts(extras), distribution("thebes")
    ours = f"pkg:pypi/thebes@{own.version}"
    components = [
        {
            "type": "library",
            "bom-ref": part.purl,
            "name": part.name,
            "version": part.version,
            "purl": part.purl,
            **({"licenses": [{"license": {"name": part.licence}}]} if part.licence else {}),
        }
        for part in found
    ]
    components += [
        {
            "type": "library",
            "bom-ref": f"vendored:{each['file']}",
            "name": each["name"],
            "version": each["version"],
            "licenses": [{"license": {"name": each["licence"]}}],
            "hashes": [{"alg": "SHA-256", "content": each["sha256"]}],
        }
        for each in vendored()
    ]
    refs = {part.name: part.purl for part in found}
    needed = _needs(own, frozenset(extras))
    depends = [{"ref": ours, "dependsOn": sorted({refs[name] for name, _ in needed} | _vendored_refs())}]
    depends += [{"ref": part.purl, "dependsOn": sorted(refs[name] for name in part.needs)} for part in found]
    about = {"type": "application", "bom-ref": ours, "name": "thebes", "version": own.version, "purl": ours}
    metadata: dict[str, Any] = {"component": {**about, "licenses": [{"license": {"name": licence_of(own)}}]}}
    if moment is not None:
        metadata["timestamp"] = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"metadata": metadata, "components": components, "dependencies": depends}
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(told, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1, **told}


def _vendored_refs() -> set[str]:
    return {f"vendored:{each['file']}" for each in vendored()}


def _licences(extras: list[str]) -> int:
    rows = [(p.name, p.version, p.licence or "(it does not say)", p.binding or not p.licence) for p in parts(extras)]
    rows += [(each["name"], each["version"], each["licence"], False) for each in vendored()]
    widths = [max(len(name) for name, *_ in rows), max(len(version) for _, version, *_ in rows)]
    for name, version, licence, doubtful in rows:
        print(f"{'?' if doubtful else ' '} {name:<{widths[0]}}  {version:<{widths[1]}}  {licence}")
    doubts = [row[0] for row in rows if row[3]]
    if doubts:
        print(f"Look at these by hand before they are shipped: {', '.join(doubts)}", file=sys.stderr)
    return int(bool(doubts))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["licences", "sbom", "hashes", "runtime"])
    parser.add_argument("--extra", action="append", default=[], help="an optional part, such as postgres")
    asked = parser.parse_args()
    if asked.what == "licences":
        raise SystemExit(_licences(asked.extra))
    if asked.what == "sbom":
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        print(json.dumps(bill(asked.extra, moment=int(epoch) if epoch else None), indent=2))
        return
    if asked.what == "runtime":
        for container in CONTAINERS:
            runtime_file(container).write_text(runtime(container), encoding="utf-8")
        return
    wrong = unhashed()
    for line in wrong:
        print(line, file=sys.stderr)
    raise SystemExit(int(bool(wrong)))


if __name__ == "__main__":
    main()
