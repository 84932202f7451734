"""A server full of real data, asked by schemathesis whatever our own OpenAPI document allows, and much it does not.

No answer may be a 5xx, have an undocumented status or type, or lie outside its schema.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar
from zlib import crc32

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.errors import FailureGroup

from cascade_server.agentdocs import openapi
from cascade_server.contract.client import CascadeClient
from cascade_server.contract.endpoints import ENDPOINTS
from cascade_server.contract.models import Heartbeat, RunCreate, RunEntry, StepTimelineBody
from cascade_server.contract.states import SimState
from tests.processes import ServerProcess, server_process
from tests.recordings import recording_lines
from tests.servers import TOKEN

T = TypeVar("T")

EXAMPLES = 20
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
STREAMS = ("run_events", "server_events")

schema = schemathesis.openapi.from_dict(openapi.document())
load_all_checks()
WANTED: Any = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    ]
)


class Loop:
    """An event loop in a thread, since schemathesis asks from outside of any."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Ids = dict[str, list[str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Ids]]:
    loop = Loop()
    context = server_process(tmp_path_factory.mktemp("data"), launcher="none")
    process = loop.run(context.__aenter__())
    try:
        yield process.url, loop.run(fill(process))
    finally:
        loop.run(context.__aexit__(None, None, None))
        loop.close()


async def fill(process: ServerProcess) -> Ids:
    """A finished run with files and a timeline, and one at work; the ids that exist."""
    async with process.client() as client:
        done = await play(client, ["SM7_QV100", "SM7_TITANV"], ["ok-demo-qv100", "ok-demo-titanv"])
        busy = await play(client, ["SM7_GV100"], ["ok-demo-gv100"], until=3000)
        runs = [run.id for run in await client.runs()]
    return {
        "trace_id": ["demo-sm70", "sample-layers4-sm80"],
        "run_id": runs,
        "sim_id": [*done, *busy],
        "kernel_index": [str(i) for i in range(12)],
        "name": ["stats.csv", "simulator.log.gz", "notes.txt", "x"],
    }


async def play(
    client: CascadeClient, configs: Sequence[str], recordings: Sequence[str], *, until: int | None = None
) -> list[str]:
    entries = [RunEntry(gpu_config=config, count=1) for config in configs]
    run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
    for sim, recording in zip(run.sims, recordings, strict=True):
        await client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
        lines = recording_lines(recording)[:until]
        await client.post_logs(sim.id, 0, lines)
        if until is None:
            for name in ("stats.csv", "simulator.log.gz", "notes.txt"):
                await client.put_file(sim.id, name, b"some,bytes\n")
            await client.post_step_timeline(sim.id, StepTimelineBody(simulated={"steps": []}))
            await client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    return [sim.id for sim in run.sims]


def lead_somewhere(case: Any, ids: Ids) -> None:
    """Put ids that exist into two of three cases: random ones would find nothing but 404."""
    pick = crc32(repr((case.path_parameters, case.query, case.body)).encode())
    if pick % 3 == 0:
        return
    for number, name in enumerate(case.path_parameters):
        known = ids[name]
        case.path_parameters[name] = known[(pick >> 3 * number + 2) % len(known)]
    if case.operation.definition.raw["operationId"] == "create_run" and isinstance(case.body, dict):
        case.body["trace_id"] = "demo-sm70"
        if pick % 3 == 1:
            case.body["entries"] = [{"gpu_config": "SM7_QV100", "count": 1}]


@schema.exclude(operation_id=list(STREAMS)).parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case: Any, server: tuple[str, Ids]) -> None:
    url, ids = server
    lead_somewhere(case, ids)
    case.call_and_validate(base_url=url, headers=HEADERS, checks=WANTED, timeout=10)


@pytest.mark.parametrize("name", STREAMS)
def test_streams_open_as_documented(server: tuple[str, Ids], name: str) -> None:
    url, ids = server
    endpoint = ENDPOINTS[name]
    path = endpoint.path.format(run_id=ids["run_id"][0])
    media = schema[endpoint.path][endpoint.method].definition.raw["responses"]["200"]["content"]["text/event-stream"]
    event = jsonschema_rs.validator_for(media["x-events"] | {"components": openapi.document()["components"]})
    with requests.get(url + path, headers=HEADERS, stream=True, timeout=10) as answer:
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
        lines = answer.iter_lines(chunk_size=1 << 16)
        data = next(line for line in lines if line.startswith(b"data: "))
    first = json.loads(data.removeprefix(b"data: "))
    assert first["type"] == "snapshot"
    event.validate(first)
    wrong: list[tuple[str, dict[str, str], int]] = [(path, {}, 401)]
    if "{run_id}" in endpoint.path:
        wrong.append((endpoint.path.format(run_id="run-0"), HEADERS, 404))
    for place, headers, status in wrong:
        refused = requests.get(url + place, headers=headers, timeout=10)
        assert (refused.status_code, [*refused.json()]) == (status, ["detail"])


def test_a_wrong_answer_would_be_noticed(server: tuple[str, Ids]) -> None:
    url, _ = server
    lying = copy.deepcopy(openapi.document())
    lying["components"]["schemas"]["Health"]["required"].append("missing")
    case = schemathesis.openapi.from_dict(lying)["/api/health"]["GET"].Case()
    with pytest.raises(FailureGroup, match="missing"):
        case.call_and_validate(base_url=url, checks=WANTED, timeout=10)


@pytest.mark.parametrize("name", [e.name for e in ENDPOINTS.values() if e.body or e.raw_body])
def test_a_body_that_is_not_encoded_as_it_says_is_the_clients_fault(server: tuple[str, Ids], name: str) -> None:
    url, ids = server
    endpoint = ENDPOINTS[name]
    path = endpoint.url(sim_id=ids["sim_id"][-1], name="x")
    headers = HEADERS | {"Content-Encoding": "gzip"}
    answer = requests.request(endpoint.method, url + path, data=b"no gzip at all", headers=headers, timeout=10)
    assert answer.status_code == 422
    assert "can't be decoded" in answer.json()["detail"]
