"""Every documented Python snippet runs, every documented command is there, and every error is documented."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from thebes.cli import main

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.diagrams import DIAGRAMS, drawn

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(?:sh|console|text)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WITH_SNIPPETS = [page for page in PAGES if SNIPPET.search(page.read_text(encoding="utf-8"))]


@pytest.mark.few(4)
@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_snippet_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for number, snippet in enumerate(SNIPPET.findall(page.read_text(encoding="utf-8")), start=1):
        exec(compile(snippet, f"{page.name} snippet {number}", "exec"), names)


def commands(page: Path) -> Iterator[str]:
    """Every `thebes ...` of a page, in a line of its own or among words, without what follows a hash."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if named := re.match(r"(?:[$#] )?thebes (.*)", line.strip()):
                yield named[1].partition(" #")[0]
    yield from re.findall(r"`thebes ([^`\n]+)`", text)


def test_every_command_of_a_page_is_there_with_its_options() -> None:
    thebes, missing, seen = typer.main.get_command(main.wired()), [], 0
    for page in PAGES:
        for said in commands(page):
            words, here = said.split(), thebes
            while isinstance(here, TyperGroup) and words and re.fullmatch(r"[a-z][a-z|-]*", words[0]):
                first, *others = words.pop(0).split("|")  # `check|explain` are two
                missing += [f"{page.name}: thebes {said}" for name in (first, *others) if name not in here.commands]
                if first not in here.commands:
                    break
                here = here.commands[first]
            else:
                known = {"--help", *(spelled for parameter in here.params for spelled in parameter.opts)}
                named = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(words))
                free = here.context_settings.get("ignore_unknown_options", False)  # what a collector is told
                missing += [f"{page.name}: thebes {said}: {o}" for o in named if o not in known and not free]
                seen += 1
    assert not missing
    assert seen > 150


ENTRY = re.compile(r'^\| <a id="([A-Za-z-]+)"></a>`(\w+)` \| (.+) \|$', re.MULTILINE)


def test_every_refusal_has_an_entry_with_its_cause_and_what_to_do_at_an_address() -> None:
    from importlib import import_module
    from pkgutil import walk_packages

    import thebes
    from thebes.privacy.faults import ThebesError
    from thebes.tokens.refusals import Flaw
    from thebes.wire.refused_sites import WORDS

    for info in walk_packages(thebes.__path__, "thebes."):
        if not info.name.endswith("__main__") and ".migrations." not in info.name:
            import_module(info.name)

    def family(error: type[ThebesError]) -> set[str]:
        return {error.__name__}.union(
            *(family(e) for e in error.__subclasses__() if e.__module__.startswith("thebes."))
        )

    entries = ENTRY.findall((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    raised = {name for name in family(ThebesError) if not name.startswith("_")}
    wanted = raised | {f"site-{code}" for code in WORDS} | {f"flaw-{flaw}" for flaw in Flaw}
    assert not wanted - {address for address, _, _ in entries}, "docs/errors.md has no entry for these"
    assert len(entries) == len({address for address, _, _ in entries})
    for address, name, told in entries:
        cells = told.split(" | ")
        assert address.removeprefix("site-").removeprefix("flaw-") == name
        assert len(cells) == (2 if "-" in address else 3)
        assert all(cell.strip("- ") or cells[0] == "-" for cell in cells), f"{address} says nothing"
        assert len(cells[-1]) > 5, f"{address} says not what to do"


def test_a_command_shows_every_entry_of_the_errors_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.support.command import exit_status

    entries = ENTRY.findall((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    assert exit_status("errors") == 0
    listed = capsys.readouterr().out
    for address, _, _ in entries:
        assert f"{address} " in listed
        assert exit_status("errors", address) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"{address}: ")
        assert "\nWhat to do: " in shown
        assert "](" not in shown
    assert exit_status("errors", "budget") == 0  # as a site's answer names it
    assert "Ask for less epsilon" in capsys.readouterr().out
    assert exit_status("errors", "BudgetExceded") == 2
    assert "did you mean BudgetExceeded?" in capsys.readouterr().err


def test_every_link_of_a_page_leads_somewhere_in_a_clone() -> None:
    lost = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not re.match(r"https?://|#", target) and not (page.parent / re.split("[?#]", target)[0]).exists()
    ]
    assert not lost


def test_the_diagrams_are_what_is_described_and_stand_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, diagram in DIAGRAMS.items():
        assert (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == drawn(diagram), (
            "make pictures"
        )
        assert f"pictures/{name}.svg)" in pages


def test_every_page_says_at_its_top_whom_it_is_for() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        top = page.read_text(encoding="utf-8")[:400]
        assert re.search(r"^(\*?For |You )", top, re.MULTILINE), f"{page.name} does not say whom it is for"


@pytest.mark.slow
def test_nothing_of_the_workshop_is_mentioned() -> None:
    """The project speaks of itself only: no absolute path of a machine and no registry's address."""
    telling = re.compile(r"(^|[^.\w])/work/|pypi\.org|files\.pythonhosted|registry\.npmjs", re.MULTILINE)
    texts = [p for p in ROOT.rglob("*") if p.suffix in {".py", ".md", ".toml", ".txt", ".yml", ".json"}]
    aside = re.compile(r"\.venv|site$|\.git$")
    kept = [p for p in texts if not aside.match(p.relative_to(ROOT).parts[0]) and p != Path(__file__)]
    assert not [str(p.relative_to(ROOT)) for p in kept if telling.search(p.read_text(encoding="utf-8"))]
