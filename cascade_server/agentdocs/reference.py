"""The API reference: one HTML page that loads nothing, made from the endpoint table and the models."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from html import escape
from http import HTTPStatus
from typing import TypeVar

from cascade_server import __version__
from cascade_server.contract.endpoints import Auth, Endpoint
from cascade_server.contract.states import MOVES, SimState

from .markdown import AUTH
from .notes import NOTES, RUN_STATES, SIM_STATES, TRACE_STATES, Group, grouped
from .openapi import INTRO, PATH_PARAMETERS, event_type, path_parameters, query_schema
from .plain import anchor, paragraphs, without_mark
from .schemas import Schema, components, limits, reference, type_text
from .style import CSS

EXAMPLE_WIDTH = 100
"""Characters of an example's line before it is broken."""

State = TypeVar("State", bound=StrEnum)


def content_security_policy() -> str:
    """The page may show itself with its own style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )  # fmt: skip


@cache
def page() -> str:
    """The whole page."""
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>Cascade API</title>\n<style>{CSS}</style>\n</head>\n<body>\n",
            *_navigation(),
            "<main>\n<h1>Cascade API</h1>\n",
            *_introduction(),
            *(piece for group, endpoints in grouped() for piece in group_section(group, endpoints)),
            *_types(),
            *_states(),
            "</main>\n</body>\n</html>\n",
        ]
    )


def rich(text: str) -> str:
    """Text as HTML; what stands between backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def type_html(schema: Schema) -> str:
    """A type with links to the models it names."""

    def link(name: str) -> str:
        return f'<a href="#{anchor("type", name)}">{escape(name)}</a>'

    shown = type_text(schema, link, lambda value: f"<code>{escape(value, quote=False)}</code>")
    more = limits(schema)
    return f"{shown} ({escape(more)})" if more else shown


def _navigation() -> Iterator[str]:
    yield f'<nav>\n<h1>Cascade</h1>\n<p class="version">API {escape(__version__)}</p>\n'
    for group, endpoints in grouped():
        yield f'<h2><a href="#{anchor(group.title)}">{escape(group.title)}</a></h2>\n<ul>\n'
        for endpoint in endpoints:
            path = escape(endpoint.path)
            yield f'<li><a href="#{anchor("route", endpoint.name)}">{_method(endpoint)}<span>{path}</span></a></li>\n'
        yield "</ul>\n"
    yield '<h2><a href="#types">Types</a></h2>\n<ul>\n'
    for name in components():
        yield f'<li><a href="#{anchor("type", name)}"><span>{escape(name)}</span></a></li>\n'
    yield '</ul>\n<h2><a href="#states">States</a></h2>\n</nav>\n'


def _introduction() -> Iterator[str]:
    for text in paragraphs(INTRO):
        yield f"<p>{rich(text)}</p>\n"
    yield (
        "<p>Send the token as <code>Authorization: Bearer $CASCADE_TOKEN</code>. For programs there is this API as "
        '<a href="/api/openapi.json">OpenAPI 3.1</a>, and for AI agents a <a href="/agent-prompt.md">prompt</a>, a '
        '<a href="/cascade-skill/SKILL.md">skill</a> and <a href="/llms.txt">llms.txt</a>.</p>\n'
    )


def group_section(group: Group, endpoints: Iterable[Endpoint]) -> Iterator[str]:
    """A group's heading and its routes."""
    yield f'<section>\n<h2 id="{anchor(group.title)}">{escape(group.title)}</h2>\n<p>{rich(group.summary)}</p>\n'
    for endpoint in endpoints:
        yield from _route(endpoint)
    yield "</section>\n"


def _method(endpoint: Endpoint) -> str:
    return f'<span class="method {endpoint.method.lower()}">{escape(endpoint.method)}</span>'


def _route(endpoint: Endpoint) -> Iterator[str]:
    tag = "" if endpoint.auth is Auth.TOKEN else f'<span class="tag">{escape(AUTH[endpoint.auth])}</span>'
    yield f'<article id="{anchor("route", endpoint.name)}">\n'
    yield f"<h3>{_method(endpoint)}<code>{escape(endpoint.path)}</code>{tag}</h3>\n"
    yield f"<p>{rich(without_mark(endpoint.summary))}</p>\n"
    if endpoint.name in NOTES:
        yield f'<p class="note">{rich(NOTES[endpoint.name])}</p>\n'
    yield from _parameters(endpoint)
    if endpoint.body is not None:
        yield f"<h4>Body</h4>\n<p>{type_html(reference(endpoint.body, 'validation'))} as JSON</p>\n"
    elif endpoint.raw_body:
        yield "<h4>Body</h4>\n<p>Raw bytes</p>\n"
    rows = [(str(endpoint.status), _answer(endpoint))]
    if endpoint.auth is not Auth.NONE:
        rows.append(("401", "The token is missing or wrong."))
    rows += [(str(status), rich(text)) for status, text in endpoint.errors.items()]
    yield '<h4>Answers</h4>\n<table class="answers">\n'
    for status, text in sorted(rows):
        kind = ' class="error"' if status >= "400" else ""
        yield f"<tr><td{kind}>{status}</td><td>{text}</td></tr>\n"
    yield f"</table>\n<pre><code>{escape(example(endpoint), quote=False)}</code></pre>\n</article>\n"


def _parameters(endpoint: Endpoint) -> Iterator[str]:
    rows = []
    for name in path_parameters(endpoint):
        text, schema = PATH_PARAMETERS[name]
        pattern = f" Pattern <code>{escape(schema['pattern'])}</code>." if "pattern" in schema else ""
        rows.append((f"{{{name}}}", type_html(schema), rich(text) + pattern))
    for query in endpoint.query:
        rows.append((f"?{query.name}=", type_html(query_schema(query)), rich(without_mark(query.summary))))
    if rows:
        yield "<h4>Parameters</h4>\n" + _fields(rows)


def _fields(rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [
        f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{text}</td></tr>\n" for name, kind, text in rows
    ]
    return f'<div class="scroll"><table class="fields">\n{"".join(lines)}</table></div>\n'


def _answer(endpoint: Endpoint) -> str:
    if endpoint.status == HTTPStatus.NO_CONTENT:
        return "Done; no body."
    if (event := event_type(endpoint)) is not None:
        return f"{rich(f'`{endpoint.media_type}`')} of {type_html(event)}"
    kind = rich(f"`{endpoint.media_type}`")
    if endpoint.response is not None:
        kind = type_html(reference(endpoint.response, "serialization"))
    return kind + (f", as the download <code>{escape(endpoint.attachment)}</code>" if endpoint.attachment else "")


def example(endpoint: Endpoint) -> str:
    """A command that calls the route."""
    names = path_parameters(endpoint)
    words = ["curl -sS"]
    if event_type(endpoint) is not None:
        words.append("-N")
    if endpoint.method != "GET":
        words.append(f"-X {endpoint.method}")
    if endpoint.auth is not Auth.NONE:
        words.append('-H "Authorization: Bearer $CASCADE_TOKEN"')
    if endpoint.body is not None:
        words.append("-H 'Content-Type: application/json' --data-binary @body.json")
    elif endpoint.raw_body:
        words.append("-H 'Content-Type: application/octet-stream' --data-binary @FILE")
    url = endpoint.path.format(**{name: name.upper() for name in names})
    words.append(f'"$CASCADE_URL{url}"')
    line = " ".join(words)
    return line if len(line) <= EXAMPLE_WIDTH else " \\\n  ".join([" ".join(words[:-2]), " ".join(words[-2:])])


def _types() -> Iterator[str]:
    yield '<section>\n<h2 id="types">Types</h2>\n'
    yield "<p>Every JSON body, in and out. Fields that may be missing say so.</p>\n"
    for name, schema in components().items():
        yield f'<article id="{anchor("type", name)}">\n<h3><code>{escape(name)}</code></h3>\n'
        for text in paragraphs(schema.get("description", "")):
            yield f"<p>{rich(text)}</p>\n"
        yield type_fields(schema)
        yield "</article>\n"
    yield "</section>\n"


def type_fields(schema: Schema) -> str:
    """A type's fields as a table, or what it is made of."""
    if "properties" not in schema:
        return f"<p>{type_html(schema)}</p>\n"
    rows = []
    for field, inner in schema["properties"].items():
        optional = "" if field in schema.get("required", ()) else '<span class="tag">optional</span>'
        text = rich(" ".join(inner.get("description", "").split()))
        rows.append((field, type_html(inner) + optional, text))
    return _fields(rows)


def _states() -> Iterator[str]:
    yield '<section>\n<h2 id="states">States</h2>\n<p>Where traces, runs and sims can stand.</p>\n'
    yield from _state_table("Sims", SIM_STATES)
    yield from _state_table("Runs, derived from their sims", RUN_STATES)
    yield from _state_table("Traces", TRACE_STATES)
    yield "</section>\n"


def _state_table(title: str, meanings: Mapping[State, str]) -> Iterator[str]:
    yield f'<h4>{escape(title)}</h4>\n<div class="scroll"><table class="fields">\n'
    for state, meaning in meanings.items():
        goes = ""
        if isinstance(state, SimState):
            after = ", ".join(new for new in MOVES if new in MOVES[state])
            goes = f"then {after}" if after else "the end"
        yield f"<tr><td><code>{escape(state)}</code></td><td>{rich(meaning)}</td><td>{escape(goes)}</td></tr>\n"
    yield "</table></div>\n"
