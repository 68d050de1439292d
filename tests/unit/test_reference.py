"""The pages of reference name every command and every address, and say of each what it does."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest
import typer

from thebes.cli import main
from thebes.coordinator.settings import CoordinatorSettings
from thebes.curator.pipelines.ready.network import NeuralNetwork
from thebes.tasks import registry

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.reference import addresses, commands, documents, settings

THEBES = typer.main.get_command(main.wired())
HEADING = re.compile(r"^### `(\w+ \S+)`\n\n(.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, addresses.Schema]]:
    return addresses.described(tmp_path_factory.mktemp("servers"))


def test_every_command_has_a_section_and_says_what_each_of_its_options_is() -> None:
    page = commands.written()
    for words, command in commands.commands(THEBES, "thebes"):
        assert f"\n## {words}\n" in page
        assert command.help, f"{words} says nothing of itself"
        silent = [p.name for p in command.params if not (p.help or getattr(p, "hidden", False))]
        assert not silent, f"{words} says nothing of {silent}"
    assert page.count("\n## ") > 60
    assert "--one-of-several" not in page


def test_every_address_has_a_section_and_says_what_it_does(servers: dict[str, tuple[str, addresses.Schema]]) -> None:
    told = dict(HEADING.findall(addresses.written(servers)))
    for title, (_, described) in servers.items():
        for path, methods in described["paths"].items():
            for method in methods:
                assert len(told[f"{method.upper()} {path}"]) > 15, f"{title}: {method} {path}"


def test_what_an_address_takes_and_answers_is_told_to_the_last_field() -> None:
    page = addresses.written(
        {
            "A server": (
                "Words.",
                {
                    "paths": {
                        "/api/thing": {
                            "post": {
                                "description": "Make a | thing.",
                                "parameters": [
                                    {"in": "query", "name": "most", "schema": {"type": "integer", "default": 3}}
                                ],
                                "requestBody": {
                                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}
                                },
                                "responses": {
                                    "200": {
                                        "content": {
                                            "application/json": {
                                                "schema": {
                                                    "type": "array",
                                                    "items": {"$ref": "#/components/schemas/Thing"},
                                                }
                                            }
                                        }
                                    },
                                    "409": {},
                                    "422": {},
                                },
                            },
                            "get": {"responses": {"422": {}}},
                        }
                    },
                    "components": {
                        "schemas": {
                            "Thing": {
                                "type": "object",
                                "description": "A thing.",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string", "description": "what it is called"},
                                    "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                                },
                            }
                        }
                    },
                },
            )
        }
    )
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert "| query | `most` | whole number | default 3 |" in rows
    assert "| body | | object | A thing. |" in rows
    assert "| answer 200 | | list of | A thing. |" in rows
    assert rows.count("| | `name` | text | what it is called |") == 2
    assert "| | `size` (may be left out) | number or null |  |" in rows
    assert "Every address may answer 422." in page
    assert "Refuses also with 409." in page
    assert "Make a \\| thing." in page


def test_every_field_of_every_document_and_every_setting_says_what_it_means() -> None:
    page = documents.written()
    for type_ in registry.types():
        section = page.partition(f"\n## {type_}\n")[2].partition("\n## ")[0]
        asked = "people" if type_ in registry.people_types() else "institutions"
        shared = page.partition(f"\n## Every document that {asked} answer\n")[2].partition("\n## ")[0]
        fields = set(registry.kind(type_).document.model_fields) - {"type"}
        assert not [name for name in fields if f"| `{name}` |" not in section + shared], type_
    rows = [line for line in (page + settings.written()).splitlines() if line.startswith("| `")]
    assert not [row for row in rows if row.endswith("|  |")]
    assert not set(CoordinatorSettings.model_fields) - set(
        re.findall(r"^\| `(\w+)` \|", settings.written(), re.MULTILINE)
    )


def test_a_row_says_what_a_field_takes_and_within_which_limits() -> None:
    page = documents.written()
    assert "| `min_count` | whole number from 1 to 1,000,000,000 | `11` |" in page
    assert "| `quantile` | number above 0 below 1 | none |" in page
    assert "| `statistics.*.weight` | whole number from 1 to 100 | none |" in page
    assert "| `columns` | list of 2 text | none |" in page


def test_what_a_form_says_of_a_networks_defaults_is_what_the_network_takes() -> None:
    taken = {name: each.default for name, each in inspect.signature(NeuralNetwork.__init__).parameters.items()}
    form = registry.form("pipeline")
    for name in ("rate", "clip", "learning_rate"):
        for said in (form.fields[name].help, form.meanings[name]):
            assert float(re.findall(r"(?<!L)\d+(?:\.\d+)?", said)[-1]) == taken[name], name
