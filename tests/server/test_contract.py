"""Walks the endpoint table: every route, each of its statuses, against a live server filled with real recordings."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import TypeAdapter

from cascade_server.app import MAX_BODY_BYTES
from cascade_server.contract.endpoints import ENDPOINTS, Auth, Endpoint
from cascade_server.contract.events import RUN_EVENT, SERVER_EVENT
from cascade_server.contract.models import ErrorBody, RunDetail, StepTimelineBody
from cascade_server.contract.sse import Decoder
from tests.servers import TOKEN, Running, running_server

BAD_ID = "no-such-thing"
LIMIT = 100_000


@dataclass(frozen=True)
class Case:
    """One request, and the status that must answer it."""

    name: str
    status: int
    params: dict[str, str]
    query: dict[str, str]
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.name}-{self.status}"


GOOD = {"trace_id": "demo-sm70", "run_id": "RUN", "sim_id": "SIM", "kernel_index": "3", "name": "kernel-stats.csv"}
BODIES: dict[str, Any] = {
    "create_run": {"trace_id": "demo-sm70", "entries": [{"gpu_config": "SM7_QV100", "count": 1}]},
    "heartbeat": {"state": "running"},
    "post_logs": {"seq": 0, "lines": []},
    "post_step_timeline": {"simulated": {}},
}


def success(endpoint: Endpoint) -> Case:
    body = json.dumps(BODIES[endpoint.name]).encode() if endpoint.name in BODIES else None
    body = b"bytes" if endpoint.raw_body else body
    return Case(endpoint.name, endpoint.status, params(endpoint), {}, body)


def params(endpoint: Endpoint, **changes: str) -> dict[str, str]:
    return {name: changes.get(name, GOOD[name]) for name in re.findall(r"{(\w+)}", endpoint.path)}


def not_found(endpoint: Endpoint) -> list[Case]:
    """One for each parameter of the path, and for a body that names what is not there."""
    good = success(endpoint)
    cases = [
        Case(endpoint.name, 404, good.params | {name: BAD_ID}, {}, good.body)
        for name in good.params
        if not (endpoint.name == "put_file" and name == "name")
    ]
    if endpoint.name == "sim_kernel":
        cases += [
            Case(endpoint.name, 404, good.params | {"kernel_index": text}, {}) for text in ("999", "-1", "x", "1e2")
        ]
    if endpoint.name == "create_run":
        body = {"trace_id": BAD_ID, "entries": [{"gpu_config": "SM7_QV100", "count": 1}]}
        cases.append(Case(endpoint.name, 404, {}, {}, json.dumps(body).encode()))
    return cases


def refused(endpoint: Endpoint) -> list[Case]:
    """Bodies, names and queries that do not fit, are too large, or come at the wrong time."""
    good = success(endpoint)
    cases = []
    for status in endpoint.errors:
        if status == 413:
            size = LIMIT + 1 if endpoint.raw_body else MAX_BODY_BYTES + 1
            cases.append(Case(endpoint.name, 413, good.params, {}, b" " * size))
        elif status == 422 and endpoint.body is not None:
            bodies = (
                b"",
                b"{",
                b"[]",
                b"\xff",
                b"[" * 50_000,
                b"null",
                b'{"entries": 1, "state": 1, "seq": "x", "simulated": 3}',
            )
            cases += [Case(endpoint.name, 422, good.params, {}, body) for body in bodies]
        elif status == 422 and endpoint.raw_body:
            cases += [
                Case(endpoint.name, 422, good.params | {"name": name}, {}, b"x") for name in ("a:b", "a b", "x" * 129)
            ]
        elif status == 422:
            cases += [Case(endpoint.name, 422, good.params, {"tail": text}) for text in ("-1", "x", "")]
        elif status == 409 and endpoint.name == "create_run":
            body = {"trace_id": "sample-layers4-sm80", "entries": [{"gpu_config": "SM80_A100", "count": 1}]}
            cases.append(Case(endpoint.name, 409, {}, {}, json.dumps(body).encode()))
        elif status == 409:
            cases.append(Case(endpoint.name, 409, good.params, {}, b'{"seq": 99999999, "lines": ["x"]}'))
    return cases


CASES = [case for e in ENDPOINTS.values() for case in (success(e), *not_found(e), *refused(e))]


def test_every_declared_status_has_a_case() -> None:
    covered = {(case.name, case.status) for case in CASES}
    for endpoint in ENDPOINTS.values():
        for status in (endpoint.status, *endpoint.errors):
            assert (endpoint.name, status) in covered


@asynccontextmanager
async def filled(folder: Path) -> AsyncIterator[tuple[Running, RunDetail]]:
    async with running_server(folder, max_file_bytes=LIMIT) as server:
        run = await server.create("SM7_QV100", "SM7_TITANV")
        for sim, name in zip(run.sims, ("ok-demo-qv100", "ok-demo-titanv"), strict=True):
            await server.client.put_file(sim.id, "kernel-stats.csv", b"a,b\n")
            await server.client.post_step_timeline(sim.id, StepTimelineBody(simulated={"steps": []}))
            await server.finish(sim, name)
        yield server, await server.client.run(run.id)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contract")


async def test_every_case_answers_as_declared(folder: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    async with filled(folder) as (server, run), aiohttp.ClientSession(headers=headers) as http:
        for case in CASES:
            endpoint = ENDPOINTS[case.name]
            ids = {"RUN": run.id, "SIM": run.sims[0].id}
            url = server.url + endpoint.url(**{k: ids.get(v, v) for k, v in case.params.items()})
            chunked = aiohttp.BytesPayload(case.body) if case.body is not None and len(case.body) < 1 << 20 else None
            data = chunked if chunked is not None or case.body is None else pieces(case.body)
            async with http.request(endpoint.method, url, params=case.query, data=data) as response:
                assert response.status == case.status, (case, await response.text())
                if case.status == endpoint.status:
                    await check_success(endpoint, response, ids)
                else:
                    check_error(await response.json())


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 1 << 18):
        yield body[at : at + (1 << 18)]


async def check_success(endpoint: Endpoint, response: aiohttp.ClientResponse, ids: dict[str, str]) -> None:
    if endpoint.media_type == "text/event-stream":
        await check_stream(endpoint, response)
        return
    raw = await response.read()
    if endpoint.status == 204:
        assert raw == b""
        return
    if endpoint.attachment is not None:
        name = endpoint.attachment.format(run_id=ids["RUN"], sim_id=ids["SIM"])
        assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    if endpoint.response is None:
        expected = "text/csv" if endpoint.name == "sim_file" else endpoint.media_type.split(";")[0]
        assert response.content_type == expected
        assert raw
        return
    assert response.content_type == "application/json"
    kind: TypeAdapter[Any] = TypeAdapter(endpoint.response)
    value = kind.validate_json(raw)
    # Nothing beyond the model, nothing left out: what was sent is what the model sends.
    assert json.loads(kind.dump_json(value)) == json.loads(raw, parse_constant=pytest.fail)


async def check_stream(endpoint: Endpoint, response: aiohttp.ClientResponse) -> None:
    assert response.content_type == "text/event-stream"
    decoder = Decoder()
    async for chunk in response.content.iter_any():
        for event in decoder.feed(chunk):
            adapter: TypeAdapter[Any] = RUN_EVENT if endpoint.name == "run_events" else SERVER_EVENT
            assert adapter.validate_json(event.data).type == "snapshot"
            assert re.fullmatch(r"[0-9a-f]{8}-\d+", event.id)
            return


def check_error(body: Any) -> None:
    error = ErrorBody.model_validate(body)
    if isinstance(error.detail, str):
        assert error.detail
    else:
        assert all({"loc", "msg", "type"} <= set(item) for item in error.detail)
    assert set(body) <= {"detail", "next_seq"}


async def test_a_wrong_method_is_405_for_every_path(tmp_path: Path) -> None:
    allowed: dict[str, set[str]] = {}
    for endpoint in ENDPOINTS.values():
        allowed.setdefault(endpoint.path, set()).add(endpoint.method)
    async with running_server(tmp_path) as server, aiohttp.ClientSession() as http:
        for path, methods in allowed.items():
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH"} - methods:
                async with http.request(method, server.url + re.sub(r"{\w+}", "x", path)) as response:
                    assert response.status == 405, (method, path)
                    check_error(await response.json())


def test_only_health_and_public_documents_need_no_token() -> None:
    public = {name for name, endpoint in ENDPOINTS.items() if endpoint.auth is Auth.NONE}
    assert public == {"health", "openapi", "docs", "agent_prompt", "agent_skill", "llms_txt", "llms_full_txt"}
