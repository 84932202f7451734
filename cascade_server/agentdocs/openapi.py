"""The OpenAPI 3.1 document, from the endpoint table and the models."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from typing import Any

from cascade_server import __version__
from cascade_server.contract.endpoints import Auth, Endpoint, Query
from cascade_server.contract.models import FILE_NAME, TRACE_ID

from .notes import GROUPS, NOTES, group_of, grouped
from .plain import without_mark
from .schemas import Schema, components, reference

INTRO = """\
Launch, watch and compare many Accel-Sim simulations of one GPU trace.

Times are ISO 8601 in UTC. Lists come whole, without paging. JSON never holds NaN or Infinity: what is missing is \
null. A response may gain fields later; ignore those you don't know.

Every error is JSON with `detail`: one sentence, or for a body that does not fit its model a list of `{loc, msg, \
type}`. Beside the statuses each route lists, a path that does not exist answers 404, a wrong method 405, and a \
fault of the server 500, all in this form. Answers other than event streams carry an `ETag`; send it as \
`If-None-Match` and an unchanged answer is an empty 304."""

_SIM_ID = r"^sim-[0-9a-f]{12}$"
_RUN_ID = r"^run-[0-9a-f]{12}$"
_MAX_NUMBER = 10**18 - 1

PATH_PARAMETERS: dict[str, tuple[str, Schema]] = {
    "trace_id": ("The trace's id, which is its folder's name.", {"type": "string", "pattern": TRACE_ID}),
    "run_id": ("The run's id.", {"type": "string", "pattern": _RUN_ID}),
    "sim_id": ("The sim's id.", {"type": "string", "pattern": _SIM_ID}),
    "kernel_index": ("The kernel's place in the order of completion, from 0.", {"type": "integer", "minimum": 0}),
    "name": ("The file's name.", {"type": "string", "pattern": FILE_NAME}),
}

_EVENTS = {"run_events": "RunEvent", "server_events": "ServerEvent"}

_SECURITY: dict[Auth, list[dict[str, list[str]]]] = {
    Auth.NONE: [],
    Auth.TOKEN: [{"token": []}],
    Auth.TOKEN_OR_QUERY: [{"token": []}, {"queryToken": []}],
    Auth.SIM: [{"simToken": []}, {"token": []}],
}

_SCHEMES: dict[str, Schema] = {
    "token": {"type": "http", "scheme": "bearer", "description": "The server's token (CASCADE_TOKEN)."},
    "queryToken": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The same token as a query parameter, for clients that can't send headers; it then counts "
        "instead of the header.",
    },
    "simToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "A worker's own token: good for its sim's simulator routes alone, and until that sim has ended.",
    },
}


@cache
def document() -> dict[str, Any]:
    """The whole document. Not to be changed by the caller."""
    paths: dict[str, dict[str, Any]] = {}
    for _, endpoints in grouped():
        for endpoint in endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Cascade",
            "version": __version__,
            "summary": "Many Accel-Sim simulations of one GPU trace.",
            "description": INTRO,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "The server that gave you this document."}],
        "tags": [{"name": group.title, "description": group.summary} for group in GROUPS],
        "paths": paths,
        "components": {
            "schemas": components(),
            "securitySchemes": _SCHEMES,
            "headers": {
                "ETag": {"description": "Changes whenever the answer does.", "schema": {"type": "string"}},
            },
            "responses": {
                "NotModified": {
                    "description": "Still what `If-None-Match` names; no body.",
                    "headers": {"ETag": {"$ref": "#/components/headers/ETag"}},
                }
            },
        },
    }


def path_parameters(endpoint: Endpoint) -> list[str]:
    """The names in the path's braces."""
    return re.findall(r"{(\w+)}", endpoint.path)


def event_type(endpoint: Endpoint) -> Schema | None:
    """The type of a stream's events; None for a route that is no stream."""
    name = _EVENTS.get(endpoint.name)
    return None if name is None else {"$ref": f"#/components/schemas/{name}"}


def query_schema(query: Query) -> Schema:
    """The schema of a query parameter."""
    return {"type": "integer", "minimum": 0, "maximum": _MAX_NUMBER} if query.type is int else {"type": "string"}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [group_of(endpoint).title],
        "summary": without_mark(endpoint.summary),
    }
    if endpoint.name in NOTES:
        operation["description"] = NOTES[endpoint.name]
    if parameters := _parameters(endpoint):
        operation["parameters"] = parameters
    if endpoint.body is not None:
        schema = reference(endpoint.body, "validation")
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    elif endpoint.raw_body:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    operation["responses"] = _responses(endpoint)
    operation["security"] = _SECURITY[endpoint.auth]
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = []
    for name in path_parameters(endpoint):
        text, schema = PATH_PARAMETERS[name]
        found.append({"name": name, "in": "path", "required": True, "description": text, "schema": schema})
    for query in endpoint.query:
        if endpoint.auth is Auth.TOKEN_OR_QUERY and query.name == _SCHEMES["queryToken"]["name"]:
            continue  # A security scheme already, and a parameter may not be described twice.
        found.append(
            {
                "name": query.name,
                "in": "query",
                "description": without_mark(query.summary),
                "schema": query_schema(query),
            }
        )
    return found


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {str(endpoint.status): _success(endpoint)}
    if endpoint.name == "sim_file":
        responses["206"] = {**responses["200"], "description": "The part that `Range` asks for."}
        responses["412"] = {"description": "The file is not the one that `If-Match` names, or has changed since."}
        responses["416"] = {"description": "`Range` lies outside the file."}
    if endpoint.method == "GET" and endpoint.name not in _EVENTS:
        responses["304"] = {"$ref": "#/components/responses/NotModified"}
    if endpoint.auth is not Auth.NONE:
        responses["401"] = {
            **_error("The token is missing or wrong."),
            "headers": {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}},
        }
    for status, text in endpoint.errors.items():
        gap = endpoint.name == "post_logs" and status == HTTPStatus.CONFLICT
        responses[str(status)] = _error(text, *(["GapBody"] if gap else []), "ErrorBody")
    return dict(sorted(responses.items()))


def _error(text: str, *names: str) -> dict[str, Any]:
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names or ("ErrorBody",)]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _success(endpoint: Endpoint) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    headers: dict[str, Any] = {}
    if endpoint.method == "GET" and endpoint.name not in _EVENTS:
        headers["ETag"] = {"$ref": "#/components/headers/ETag"}
    if endpoint.attachment is not None or endpoint.name == "sim_file":
        name = endpoint.attachment or "{name}"
        headers["Content-Disposition"] = {
            "description": f'`attachment; filename="{name}"`.',
            "schema": {"type": "string", "pattern": "^attachment; filename="},
        }
    if endpoint.name == "sim_log":
        headers["X-Cascade-First-Line"] = {
            "description": "Number of the first line sent, from 0.",
            "schema": {"type": "integer", "minimum": 0},
        }
    if headers:
        answer["headers"] = headers
    if endpoint.status != HTTPStatus.NO_CONTENT:
        answer["content"] = _content(endpoint)
    return answer


def _content(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.response is not None:
        return {"application/json": {"schema": reference(endpoint.response, "serialization")}}
    if (event := event_type(endpoint)) is not None:
        name = _EVENTS[endpoint.name]
        text = f"Server-sent events; the `data` of each is one {name} as JSON. There is no `event` field."
        media = {"schema": {"type": "string", "description": text}}
        # OpenAPI 3.1 can't say what one event of a stream looks like: an extension does.
        return {endpoint.media_type: media | {"x-events": event}}
    if endpoint.name == "sim_file":
        return {"*/*": {}}
    return {endpoint.media_type: {"schema": {"type": "string"}}}
