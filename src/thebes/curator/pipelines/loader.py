"""Pipelines from a developer's file: a document for one that is ready, or Python, which is run as it stands by somebody
who may read the rows anyway.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from inspect import isabstract
from pathlib import Path

from thebes.curator.pipelines.pipeline import Pipeline
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json


def pipelines_in(path: Path) -> tuple[dict[str, Pipeline], str]:
    """The pipelines that a file declares, by name, and what names its content."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Mistake("FILE", f"{str(path)!r} cannot be read: {error.strerror}") from None
    if path.suffix not in (".py", ".json"):
        raise Mistake("FILE", "must be a document (.json) or Python (.py) with a class that derives from Pipeline")
    found = _documented(content) if path.suffix == ".json" else _declared(path)
    return found, hashlib.sha256(content).hexdigest()


def _documented(content: bytes) -> dict[str, Pipeline]:
    from thebes.curator.pipelines.ready import of

    try:
        document = read_json(content)
    except NotJSON as error:
        raise Mistake("FILE", str(error)) from None
    if not isinstance(document, dict):
        raise Mistake("FILE", "must hold one document, a JSON object")
    made = of(document)
    return {made.name: made}


def _declared(path: Path) -> dict[str, Pipeline]:
    name = f"thebes_pipeline_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # what lies beside it may be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f" in line {lines[-1]}" if lines else ""
        raise Mistake("FILE", f"{path.name} cannot be loaded: {type(error).__name__}{where}") from None
    finally:
        sys.path.pop(0)
    found: dict[str, Pipeline] = {}
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, Pipeline) and kind.__module__ == name and not isabstract(kind):
            made = kind()
            made.check()
            if made.name in found:
                raise Mistake("FILE", f"{path.name} declares two pipelines of the name {made.name!r}")
            found[made.name] = made
    if not found:
        raise Mistake("FILE", f"{path.name} declares no pipeline: a class that derives from thebes.pipeline.Pipeline")
    return found
