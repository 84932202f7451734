"""The API reference as Markdown, for readers that are programs."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from cascade_server.contract.endpoints import Auth, Endpoint
from cascade_server.contract.states import MOVES

from .notes import NOTES, RUN_STATES, SIM_STATES, TRACE_STATES, grouped
from .openapi import INTRO
from .plain import paragraphs, without_mark
from .schemas import Mode, Schema, components, limits, reference, type_text

AUTH = {
    Auth.NONE: "no token",
    Auth.TOKEN: "token",
    Auth.TOKEN_OR_QUERY: "token, in the header or as the query parameter `token`, which then counts",
    Auth.SIM: "the sim's own token, or the main one",
}


def short_type(schema: Schema) -> str:
    """A schema as plain text."""
    return type_text(schema, link=str, literal=str) + (f" ({limits(schema)})" if limits(schema) else "")


def answer_type(endpoint: Endpoint, mode: Mode = "serialization") -> str:
    """What a route answers with, as plain text."""
    if endpoint.status == HTTPStatus.NO_CONTENT:
        return "nothing"
    return endpoint.media_type if endpoint.response is None else short_type(reference(endpoint.response, mode))


def api() -> str:
    """All routes, types and states."""
    parts = ["# API", INTRO]
    for group, endpoints in grouped():
        parts += [f"## {group.title}", group.summary]
        parts += ["\n".join(_route(endpoint)) for endpoint in endpoints]
    parts += ["## Types", "\n\n".join("\n".join(_type(name, schema)) for name, schema in components().items())]
    parts += ["## States", "\n".join(_states())]
    return "\n\n".join(parts) + "\n"


def _route(endpoint: Endpoint) -> Iterator[str]:
    yield f"### {endpoint.method} {endpoint.path}"
    yield ""
    yield " ".join(filter(None, [without_mark(endpoint.summary), NOTES.get(endpoint.name)]))
    yield ""
    yield f"- Access: {AUTH[endpoint.auth]}"
    for query in endpoint.query:
        yield f"- Query `{query.name}` ({query.type.__name__}): {without_mark(query.summary)}"
    if endpoint.body is not None:
        yield f"- Body: {short_type(reference(endpoint.body, 'validation'))}"
    elif endpoint.raw_body:
        yield "- Body: raw bytes"
    attachment = f", attachment `{endpoint.attachment}`" if endpoint.attachment else ""
    yield f"- {endpoint.status}: {answer_type(endpoint)}{attachment}"
    for status, text in sorted(endpoint.errors.items()):
        yield f"- {status}: {text}"


def _type(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield from (text + "\n" for text in paragraphs(schema.get("description", "")))
    if "properties" not in schema:
        yield short_type(schema)
        return
    for field, inner in schema["properties"].items():
        optional = "" if field in schema.get("required", ()) else ", optional"
        text = " ".join(inner.get("description", "").split())
        yield f"- `{field}`: {short_type(inner)}{optional}{'. ' + text if text else ''}"


def _states() -> Iterator[str]:
    yield "Trace: " + "; ".join(f"`{state}` {text}" for state, text in TRACE_STATES.items()) + "."
    yield ""
    yield "Run: " + "; ".join(f"`{state}` {text}" for state, text in RUN_STATES.items()) + "."
    yield ""
    yield "Sim:"
    yield ""
    for state, text in SIM_STATES.items():
        after = ", ".join(f"`{new}`" for new in MOVES if new in MOVES[state])
        yield f"- `{state}`: {text}. Next: {after or 'nothing, this is the end'}."
