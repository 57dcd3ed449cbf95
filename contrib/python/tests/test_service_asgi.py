"""The HTTP service as an application of another server: uvicorn's own command, and httpx without any server."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pysbx.service.asgi import App
from tests.servers import BEST_EFFORT, TOKEN, containers_of, wait_until


@asynccontextmanager
async def living(app: App) -> AsyncIterator[list[str]]:
    """Start an application as a server does, and stop it; yield what it has answered."""
    to: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    to.put_nowait({"type": "lifespan.startup"})
    task = asyncio.ensure_future(app({"type": "lifespan"}, to.get, said.put))
    first = await said.get()
    answers = [first["type"], first.get("message", "")]
    yield answers
    to.put_nowait({"type": "lifespan.shutdown"})
    await task
    if first["type"] == "lifespan.startup.complete":
        assert (await said.get())["type"] == "lifespan.shutdown.complete"


def test_an_application_within_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)

    async def test() -> None:
        app = App(BEST_EFFORT, "--profile", "minimal")
        way = httpx.ASGITransport(app)
        async with (
            living(app) as said,
            httpx.AsyncClient(transport=way, base_url="http://x", timeout=60) as client,
        ):
            assert said[0] == "lifespan.startup.complete"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            assert (await client.post("/execute", json={"code": "print(1)"})).status_code == 401
            done = await client.post("/execute", json={"code": "print(1)"}, headers=headers)
            assert done.json()["stdout"] == "1\n"
            assert (await client.get("/profile", headers=headers)).json()["name"] == "minimal"
            assert (await client.head("/healthz")).content == b""
            started = await client.post("/v1/sessions", json={}, headers=headers)
            assert started.status_code == 201
        assert containers_of(os.getpid()) == []

    asyncio.run(test())


def test_an_application_that_fastapi_mounts() -> None:
    async def test() -> None:
        sandboxes = App(BEST_EFFORT, needs_token=False)
        around = FastAPI(lifespan=sandboxes.lifespan)
        around.mount("/sandbox", sandboxes)
        around.mount("/of/{customer}", sandboxes)
        way = httpx.ASGITransport(around)
        async with httpx.AsyncClient(transport=way, base_url="http://x", timeout=60) as client:
            with pytest.raises(RuntimeError, match=r"FastAPI\(lifespan=app\.lifespan\)"):
                await client.get("/sandbox/health")
            async with around.router.lifespan_context(around):
                assert (await client.get("/sandbox/health")).json() == {"status": "ok"}
                assert (await client.get("/sandbox/")).text.startswith("<!doctype html>")
                done = await client.post("/sandbox/v1/run", json={"code": "6 * 7"})
                assert done.json()["value"] == "42"
                place = (await client.post("/sandbox/v1/sessions")).headers["location"]
                assert (await client.get(place)).status_code == 200, place
                of_one = "/of/a%20%C3%A9%0D%0AX:%20y"  # bytes of a client, which stay in the field
                place = (await client.post(f"{of_one}/v1/sessions")).headers["location"]
                assert place.startswith(f"{of_one.replace('X:', 'X%3A')}/v1/sessions/")
                assert (await client.get(place)).status_code == 200, place
                assert (await client.get("/health")).status_code == 404
                assert (await client.get("/sandbox/health/")).status_code == 404  # and no redirection

    asyncio.run(test())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((BEST_EFFORT,), "token: there is none"),
        ((BEST_EFFORT, "--listen", "127.0.0.1:1"), "listen: this is for `pysbx serve`"),
        (("--memory", "x"), "argument --memory"),
        ((BEST_EFFORT, "--profile", "none"), "profile 'none'"),
    ],
)
def test_an_application_that_cannot_start_says_why(
    options: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSBX_TOKEN", raising=False)

    async def test() -> list[str]:
        async with living(App(*options, needs_token="--profile" not in options)) as said:
            return said

    kind, message = asyncio.run(test())
    assert kind == "lifespan.startup.failed"
    assert why in message


def test_uvicorn_imports_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    variables = {**os.environ, "PYSBX_SERVE": f"{BEST_EFFORT} --timeout 7", "PYSBX_TOKEN": TOKEN}
    command = [sys.executable, "-m", "uvicorn", "pysbx.service.asgi:app", "--uds", str(path)]
    process = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists, 30)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        way = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=way, base_url="http://x", headers=headers, timeout=60) as client:
            assert client.get("/v1/profiles").json()["limits"]["timeout_sec"] == 7
            assert client.post("/v1/run", json={"code": "6 * 7"}).json()["value"] == "42"
            hint = client.post("/v1/run", json={"code": "import pandas"}).json()["error"]["hint"]
            slow = client.post("/v1/run", json={"code": "while True: pass", "timeout_sec": 0.2}).json()["error"]["hint"]
            # The caller of a server cannot give the options of Python.
            assert "dependencies=" not in f"{hint}" and "up to the limit of the service: timeout_sec" in slow
            assert client.post("/v1/sessions", json={}).status_code == 201
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        wait_until(lambda: containers_of(process.pid) == [])
    finally:
        process.kill()
        process.wait()


def test_uvicorn_reloads_it(tmp_path: Path) -> None:
    """As `uvicorn APPLICATION --reload`: a change of a file starts it anew, behind the same socket."""
    path, log, watched = tmp_path / "s", tmp_path / "log", tmp_path / "watched"
    watched.mkdir()
    (watched / "changed.py").touch()
    variables = {**os.environ, "PYSBX_SERVE": BEST_EFFORT, "PYSBX_TOKEN": TOKEN}
    command = [sys.executable, "-m", "uvicorn", "pysbx.service.asgi:app", "--reload", "--reload-dir", str(watched)]
    with log.open("w") as file:
        process = subprocess.Popen([*command, "--uds", str(path)], env=variables, stderr=file, stdout=file)

    def starts() -> int:
        return log.read_text().count("Application startup complete")

    def answer() -> str:
        way = httpx.HTTPTransport(uds=str(path))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(transport=way, base_url="http://x", headers=headers, timeout=60) as client:
            return str(client.post("/execute", json={"code": "print(6 * 7)"}).json()["stdout"])

    try:
        wait_until(lambda: starts() == 1, 60)
        assert answer() == "42\n"
        os.utime(watched / "changed.py", (time.time() + 60,) * 2)
        wait_until(lambda: starts() == 2, 60)
        assert answer() == "42\n"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
