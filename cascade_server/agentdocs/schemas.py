"""JSON schemas of all wire types, and how a schema reads as a short type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema

from cascade_server.contract import events
from cascade_server.contract import models as m
from cascade_server.contract.endpoints import ENDPOINTS

from .plain import without_mark

Schema = dict[str, Any]
Mode = Literal["validation", "serialization"]

PREFIX = "#/components/schemas/"
_MORE: tuple[type[BaseModel], ...] = (m.ErrorBody, m.GapBody)

UNIONS: Mapping[str, Any] = {"RunEvent": events.RunEvent, "ServerEvent": events.ServerEvent}
"""Types that are one of several models, told apart by `type`."""

_UNION_TEXTS = {
    "RunEvent": "One event of a run's stream.",
    "ServerEvent": "One event of the server's stream.",
}


class _Generator(GenerateJsonSchema):
    """The server sends every field, so none is optional in what it answers; titles would only repeat the names."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return self.mode == "serialization" or super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def union_members(name: str) -> tuple[type[BaseModel], ...]:
    """The models of one of the UNIONS."""
    return get_args(get_args(UNIONS[name])[0])


def _models() -> list[tuple[type[BaseModel], Mode]]:
    wanted: list[tuple[type[BaseModel], Mode]] = []
    for endpoint in ENDPOINTS.values():
        if endpoint.body is not None:
            wanted.append((endpoint.body, "validation"))
        if (model := _model_in(endpoint.response)) is not None:
            wanted.append((model, "serialization"))
    wanted += [(model, "serialization") for model in _MORE]
    wanted += [(model, "serialization") for name in UNIONS for model in union_members(name)]
    return list(dict.fromkeys(wanted))


def _model_in(kind: Any) -> type[BaseModel] | None:
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


@cache
def _generated() -> tuple[dict[tuple[Any, Mode], Schema], dict[str, Schema]]:
    refs, document = models_json_schema(_models(), ref_template=PREFIX + "{model}", schema_generator=_Generator)
    return dict(refs), document["$defs"]


@cache
def components() -> dict[str, Schema]:
    """Every wire type by name. Not to be changed by the caller."""
    refs, found = _generated()
    schemas: dict[str, Schema] = _unmarked(found)
    for name in UNIONS:
        members = {model: refs[model, "serialization"] for model in union_members(name)}
        schemas[name] = {
            "description": _UNION_TEXTS[name],
            "oneOf": list(members.values()),
            "discriminator": {
                "propertyName": "type",
                "mapping": {model.model_fields["type"].default: ref["$ref"] for model, ref in members.items()},
            },
        }
    return dict(sorted(schemas.items()))


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        changed = {key: _unmarked(inner) for key, inner in value.items()}
        if isinstance(value.get("description"), str):
            changed["description"] = without_mark(value["description"])
        return changed
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def reference(kind: Any, mode: Mode) -> Schema:
    """The schema of a response or body type: a reference, a list of one, or an open object."""
    model = _model_in(kind)
    if model is None:
        return {"type": "object"}
    ref = dict(_generated()[0][model, mode])
    return {"type": "array", "items": ref} if get_origin(kind) is list else ref


def type_text(schema: Schema, link: Callable[[str], str], literal: Callable[[str], str]) -> str:
    """A schema in a few words. `link` renders a type's name, `literal` a value; all else is plain words."""

    def short(inner: Schema) -> str:
        return type_text(inner, link, literal)

    if "$ref" in schema:
        return link(schema["$ref"].removeprefix(PREFIX))
    if "const" in schema:
        return literal(json.dumps(schema["const"]))
    if "enum" in schema:
        return " | ".join(literal(json.dumps(value)) for value in schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        parts = [short(part) for part in schema.get("anyOf") or schema["oneOf"]]
        # A number of either kind is a number.
        return " | ".join(part for part in dict.fromkeys(parts) if part != "integer" or "number" not in parts)
    if "prefixItems" in schema:
        return "[" + ", ".join(short(part) for part in schema["prefixItems"]) + "]"
    if schema.get("type") == "array":
        return "list of " + short(schema.get("items", {}))
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        key = short(schema["propertyNames"]) if "propertyNames" in schema else "string"
        return f"map of {key} to {short(schema['additionalProperties'])}"
    return str(schema.get("format") or schema.get("type") or "anything")


def limits(schema: Schema) -> str:
    """What a schema demands beyond its type, such as `1 to 64`; empty when nothing."""
    low, high = schema.get("minimum"), schema.get("maximum")
    found = []
    if low is not None and high is not None and high < 1 << 53:
        found.append(f"{low} to {high}")
    elif low is not None:
        found.append(f"at least {low}")
    if "minItems" in schema and "prefixItems" not in schema:
        found.append(f"at least {schema['minItems']}")
    return ", ".join(found)
