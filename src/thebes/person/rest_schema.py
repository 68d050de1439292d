"""The bodies of the person's REST interface as JSON Schema; the rooms that use them read them strictly themselves."""

from __future__ import annotations

from typing import Any

from thebes.data.store.declaration import LONGEST_DESCRIPTION, MOST_COLUMNS, MOST_RELEASE, MOST_TABLES, TYPES
from thebes.person.settings import NEEDED
from thebes.tasks import registry
from thebes.tasks.site_document import SITE_NAME

#: of collectors, tables and columns
NAME = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
TASK_ID = r"^[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,199}$"
_EPSILON = {"type": "number", "minimum": 1e-6, "maximum": 1e6}
_DELTA = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
_PRINTABLE = {"type": "string", "pattern": r"^[ -~]{1,200}$"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _named(values: dict[str, Any], most: int) -> dict[str, Any]:
    return {
        "type": "object",
        "patternProperties": {NAME: values},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": most,
    }


_DESCRIPTION = {"type": "string", "maxLength": LONGEST_DESCRIPTION}
_COLUMN = _object({"type": {"enum": list(TYPES)}, "description": _DESCRIPTION}, "type")
_TABLE = _object({"description": _DESCRIPTION, "columns": _named(_COLUMN, MOST_COLUMNS)}, "columns")
_YEAR = {f"year_{name}": {"anyOf": [it, {"type": "null"}]} for name, it in (("epsilon", _EPSILON), ("delta", _DELTA))}
_LIMITS = {"epsilon": _EPSILON, "delta": _DELTA, **_YEAR, "overall_epsilon": _EPSILON, "overall_delta": _DELTA}
_ALLOWANCE = _object(_LIMITS)
_TASK = {"anyOf": [_object({"epsilon": _EPSILON, "delta": _DELTA}, "epsilon", "delta"), {"type": "null"}]}
_CAP = _object({"epsilon": {**_EPSILON, "minimum": 0}, "delta": _DELTA}, "epsilon")
_RULE = _object(
    {
        "type": {"enum": list(registry.people_types())},
        "requestor": {"type": "string", "maxLength": 200},
        "server": {"enum": ["trusted", "split", "untrusted"]},
        "tables": {"type": "array", "items": {"type": "string"}, "maxItems": 1000},
        "epsilon_at_most": _EPSILON,
        "delta_at_most": _DELTA,
        "epsilon_per_week": _EPSILON,
        "min_count": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "stated": {"type": "boolean"},
        "probability": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    },
    "type",
    "epsilon_at_most",
)


def body(schema: dict[str, Any]) -> dict[str, Any]:
    """As `openapi_extra` of an operation."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


DECLARATION = body(
    _object(
        {
            "tables": _named(_TABLE, MOST_TABLES),
            "description": _DESCRIPTION,
            "release": {"type": "integer", "minimum": 0, "maximum": MOST_RELEASE},
        },
        "tables",
    )
)
SETTINGS = body(
    _object(
        {
            "delay_seconds": {"type": "number", "minimum": 0, "maximum": 86_400},
            "period_days": {"type": "integer", "minimum": 1, "maximum": 3660},
            "notices": {"type": "boolean"},
            "task": _TASK,
            "local": _ALLOWANCE,
            "trusted": _ALLOWANCE,
            "split": {"anyOf": [_object(_LIMITS, *NEEDED), {"type": "null"}]},
            "caps": {
                "type": "object",
                "propertyNames": _PRINTABLE,
                "additionalProperties": _CAP,
                "maxProperties": 1000,
            },
            "helpers": {
                "type": "object",
                "propertyNames": {"pattern": SITE_NAME},
                "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "maxProperties": 1000,
            },
        }
    )
)
RULES = body(_object({"rules": {"type": "array", "items": _RULE, "maxItems": 200}}, "rules"))
