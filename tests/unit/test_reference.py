"""The pages of reference name every command and every address, and say of each what it does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import typer

from thebes.cli import main

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.reference import addresses, commands

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
