"""A second reader of the Perfetto file: speedscope in a headless Chromium imports it and shows what it is.

Needs npm (once, with the network), Chromium and playwright; skipped with the reason where one can't be had.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.servers import TOKEN, running_server

VERSION = "1.25.0"
CACHE = Path(__file__).parent.parent.parent / "build" / f"speedscope-{VERSION}"
CHROMIUM = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def speedscope(cache: Path) -> Path:
    """The folder of speedscope's page, from npm at the first time; skips the test when it can't be had."""
    page = cache / "node_modules" / "speedscope" / "dist" / "release"
    if not (page / "index.html").is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed")
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
        cache.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(
                [*command, "--prefix", str(cache), f"speedscope@{VERSION}"], capture_output=True, text=True, timeout=100
            )
        except subprocess.TimeoutExpired:
            pytest.skip("npm did not fetch speedscope in 100 s")
        if not (page / "index.html").is_file():
            pytest.skip(f"npm could not fetch speedscope: {done.stderr.strip()[-200:]}")
    return page


def chromium() -> str:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("Chromium is not installed")
    return found


@pytest.fixture
async def page_url(tmp_path: Path) -> AsyncIterator[str]:
    """A server with speedscope's page at `/` and one run's Perfetto file at `/run.json`."""
    folder = speedscope(CACHE)
    async with running_server(tmp_path / "data") as cascade:
        run = await cascade.create("SM7_QV100", "SM7_GV100")
        for sim in run.sims:
            await cascade.finish(sim, {"SM7_QV100": "ok-demo-qv100", "SM7_GV100": "ok-demo-gv100"}[sim.gpu_config])
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            http.get(f"{cascade.url}/api/runs/{run.id}/perfetto") as response,
        ):
            trace = await response.text()

    async def run_json(request: web.Request) -> web.Response:
        return web.Response(text=trace, content_type="application/json")

    app = web.Application()
    app.router.add_get("/run.json", run_json)
    app.router.add_static("/", folder)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


@pytest.mark.timeout(240)
async def test_speedscope_imports_the_trace(page_url: str) -> None:
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    executable = chromium()
    said: list[str] = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=executable, args=FLAGS, timeout=20_000)
        try:
            page = await browser.new_page()
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(f"error: {error}"))
            await page.goto(f"{page_url}index.html#profileURL={page_url}run.json")
            # The name of the shown profile: speedscope makes it of process_name and thread_name.
            await page.get_by_text("SM7_QV100").first.wait_for(timeout=20_000)
            title = await page.title()
            text = await page.inner_text("body")
        finally:
            await browser.close()
    assert any("Trace Event Format" in line for line in said), said
    assert not any("error" in line.lower() or "warn" in line.lower() for line in said), said
    assert "SM7_QV100" in text, (title, text)
    assert "replica 0" in text
    assert "1/2" in text  # one profile for each thread
