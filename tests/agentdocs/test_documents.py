"""The documents: whole, true to the contract, fresh in docs/, and served to anyone."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from cascade_server import contract
from cascade_server.agentdocs import build, notes, openapi, prompt, reference, schemas
from cascade_server.agentdocs.notes import Group
from cascade_server.agentdocs.plain import anchor
from cascade_server.contract import models
from cascade_server.contract.endpoints import ENDPOINTS, Auth, Endpoint, Query
from cascade_server.contract.models import Model
from cascade_server.contract.states import RunState, SimState, TraceState
from cascade_server.routes.table import HANDLERS
from tests.servers import Running, running_server

ROOT = Path(__file__).parent.parent.parent
for _module in pkgutil.iter_modules(contract.__path__):
    importlib.import_module(f"{contract.__name__}.{_module.name}")


def subclasses(kind: type[Model]) -> set[type[Model]]:
    found = set(kind.__subclasses__())
    return found.union(*map(subclasses, found))


WIRE_MODELS = {kind.__name__ for kind in subclasses(Model) if kind.__module__.startswith(contract.__name__)}
PATHS = {
    "docs": "api.html",
    "agent_prompt": "agent-prompt.md",
    "agent_skill": "SKILL.md",
    "llms_txt": "llms.txt",
    "llms_full_txt": "llms-full.txt",
    "openapi": "openapi.json",
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_server(tmp_path) as running:
        yield running


def operation(endpoint: Endpoint) -> dict[str, Any]:
    found = openapi.document()["paths"][endpoint.path][endpoint.method.lower()]
    assert isinstance(found, dict)
    return found


def refs(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(refs, value.values()))
    return set().union(*map(refs, value)) if isinstance(value, list) else set()


def test_the_openapi_document_is_valid() -> None:
    document = json.loads(build.text("openapi.json"))
    assert document["openapi"].startswith("3.1.")
    assert [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    for ref in refs(document):
        place = document
        for word in ref.removeprefix("#/").split("/"):
            place = place[word]


def test_every_model_is_in_it_and_nothing_else() -> None:
    found = set(openapi.document()["components"]["schemas"])
    states = {"SimState", "RunState", "TraceState", "CounterKind"}
    assert found == WIRE_MODELS | states | set(schemas.UNIONS)


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda e: e.name)
def test_every_route_is_in_it_whole(endpoint: Endpoint) -> None:
    found = operation(endpoint)
    assert found["operationId"] == endpoint.name
    given = {p["name"] for p in found.get("parameters", [])}
    if {"queryToken": []} in found["security"]:
        given.add("token")
    assert given == set(re.findall(r"{(\w+)}", endpoint.path)) | {query.name for query in endpoint.query}
    expected = {str(endpoint.status), *map(str, endpoint.errors)}
    assert expected <= set(found["responses"])
    assert ("401" in found["responses"]) == (endpoint.auth is not Auth.NONE) == bool(found["security"])
    assert ("requestBody" in found) == (endpoint.body is not None or endpoint.raw_body)
    success = found["responses"][str(endpoint.status)]
    assert ("Content-Disposition" in success.get("headers", {})) == bool(
        endpoint.attachment or endpoint.name == "sim_file"
    )
    if endpoint.media_type == "text/event-stream":
        assert refs(success["content"]["text/event-stream"]["x-events"])
    for status in endpoint.errors:
        assert "#/components/schemas/ErrorBody" in refs(found["responses"][str(status)])


def test_every_route_is_served() -> None:
    assert set(HANDLERS) == set(ENDPOINTS)


def test_answers_hold_every_field_and_bodies_may_leave_some_out() -> None:
    found = openapi.document()["components"]["schemas"]
    assert set(found["SimSummary"]["required"]) == set(models.SimSummary.model_fields)
    assert found["Heartbeat"]["required"] == ["state"]


def test_notes_are_on_routes_that_exist_and_states_are_all_explained() -> None:
    assert set(notes.NOTES) <= set(ENDPOINTS)
    assert list(notes.SIM_STATES) == list(SimState)
    assert list(notes.RUN_STATES) == list(RunState)
    assert list(notes.TRACE_STATES) == list(TraceState)


@pytest.mark.parametrize("name", build.DOCUMENTS)
def test_docs_are_fresh(name: str) -> None:
    stored = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert stored == build.text(name), "run `cascade docs build` and commit docs/"


def cascade(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cascade_server", *words],
        env=os.environ | {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"} | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_command_writes_them_all(tmp_path: Path) -> None:
    done = cascade("docs", "build", CASCADE_DOCS_OUTPUT=str(tmp_path / "a" / "b"))
    assert done.returncode == 0, done.stderr
    for name in build.DOCUMENTS:
        assert (tmp_path / "a" / "b" / name).read_text(encoding="utf-8") == build.text(name)
    (tmp_path / "file").write_text("")
    done = cascade("docs", "build", "--output", str(tmp_path / "file"))
    assert (done.returncode, "can't be written" in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    shown = cascade("docs", "build", "--help").stdout
    assert "[env var: CASCADE_DOCS_OUTPUT]" in shown


@pytest.mark.parametrize(("route", "name"), PATHS.items())
async def test_each_is_served_without_a_token(server: Running, route: str, name: str) -> None:
    endpoint = ENDPOINTS[route]
    async with aiohttp.ClientSession() as http:
        async with http.get(server.url + endpoint.path) as response:
            assert response.status == 200
            assert await response.text() == build.text(name)
            kind = response.headers["Content-Type"]
            assert kind == endpoint.media_type + ("" if name.endswith(".json") else "; charset=utf-8")
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            tag = response.headers["ETag"]
        async with http.get(server.url + endpoint.path, headers={"If-None-Match": tag}) as response:
            assert (response.status, await response.read()) == (304, b"")


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                self.links.append(value)


async def test_the_page_loads_nothing_and_may_not(server: Running) -> None:
    async with aiohttp.ClientSession() as http, http.get(server.url + "/docs") as response:
        policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    page = Page(build.text("api.html"))
    assert not page.tags & {"script", "link", "img", "iframe", "form", "object", "embed"}
    assert not {name for name in page.attributes if name.startswith("on")} | page.attributes & {"style", "src"}
    assert "url(" not in build.text("api.html")
    assert "@import" not in build.text("api.html")
    assert {link for link in page.links if "://" in link} == set()


def test_the_page_holds_everything_and_its_links_lead_somewhere() -> None:
    page = Page(build.text("api.html"))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} <= {e.path for e in ENDPOINTS.values()}
    for endpoint in ENDPOINTS.values():
        assert anchor("route", endpoint.name) in page.ids
    for name in openapi.document()["components"]["schemas"]:
        assert anchor("type", name) in page.ids


def test_every_text_is_escaped_in_html() -> None:
    evil = "<img src=x onerror=alert(1)>`<b>`&\"'"
    endpoint = Endpoint(
        "evil",
        "GET",
        "/api/<i>",
        evil,
        media_type=evil,
        attachment=evil,
        query=(Query("<u>", str, evil),),
        errors={404: evil},
    )
    html = "".join(reference.group_section(Group(evil, evil), [endpoint]))
    html += reference.type_fields({"properties": {evil: {"enum": [evil], "description": evil}}, "required": [evil]})
    html += reference.type_fields({"$ref": f"#/components/schemas/{evil}"})
    assert not Page(html).tags & {"img", "b", "i", "u"}
    assert "onerror" not in Page(html).attributes
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 8


def test_the_skill_is_the_prompt_behind_a_name_and_a_description() -> None:
    head, _, body = build.text("SKILL.md").removeprefix("---\n").partition("\n---\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields.keys() == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    assert 50 < len(fields["description"]) <= 1024
    assert not re.search(r"[<>]|: ", fields["description"])
    assert body.strip() == prompt.text().strip()


def test_llms_txt_keeps_to_the_convention() -> None:
    lines = build.text("llms.txt").splitlines()
    assert lines[0] == "# Cascade"
    assert lines[2].startswith("> ")
    headings = [line for line in lines if line.startswith("#")]
    assert headings == ["# Cascade", "## Docs", "## Optional"]
    links = [line for line in lines[lines.index("## Docs") :] if line.startswith("- ")]
    paths = {found[1] for line in links if (found := re.fullmatch(r"- \[[^\]]+\]\((/[^)]*)\): .+", line))}
    assert paths == {ENDPOINTS[name].path for name in PATHS} - {"/llms.txt"}
    assert len(paths) == len(links)
    for endpoint in ENDPOINTS.values():
        assert f"`{endpoint.method} {endpoint.path}`" in build.text("llms.txt")


def test_the_full_text_holds_the_prompt_and_every_route_and_type() -> None:
    full = build.text("llms-full.txt")
    assert prompt.text().strip() in full
    for endpoint in ENDPOINTS.values():
        assert f"\n### {endpoint.method} {endpoint.path}\n" in full
    for name, schema in openapi.document()["components"]["schemas"].items():
        section = full.split(f"\n### {name}\n")[1].split("\n### ")[0]
        for field in schema.get("properties", {}):
            assert f"- `{field}`: " in section


@pytest.mark.parametrize("name", build.DOCUMENTS)
def test_nothing_is_left_to_fill_in(name: str) -> None:
    text = build.text(name)
    assert "{{" not in text
    assert "Addition:" not in text
    assert not [line for line in text.splitlines() if line.strip() in ("None", "TODO")]
