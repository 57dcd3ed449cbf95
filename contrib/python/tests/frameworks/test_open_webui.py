"""A Jupyter server and the kernel gateway with a sandbox as default kernel, used by the requests of Open WebUI.

They are those of its backend/open_webui/utils/code_interpreter.py: sign in, start a kernel, execute, delete the kernel.
"""

# once: an adapter says the same to its framework as root
# slow: it starts three servers, of the snapshot of test_jupyter.py

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

PROGRAM = (sys.executable, "-c", "import sys; from pysbx.command import main; sys.exit(main())")
SECRET = "a-secret-for-tests-only"
HASHED = f"sha256:salt:{hashlib.sha256(f'{SECRET}salt'.encode()).hexdigest()}"  # as the server keeps a password
# Of each server: its module, and its options for the default kernel, the port and the token.
SERVERS = {
    "jupyter_server": ("MappingKernelManager.default_kernel_name", "ServerApp.port", "IdentityProvider.token"),
    "kernel_gateway": ("KernelGatewayApp.default_kernel_name", "KernelGatewayApp.port", "KernelGatewayApp.auth_token"),
}


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables with which Jupyter finds the kernel, and nothing else."""
    folder = tmp_path_factory.mktemp("jupyter")
    found = os.environ | {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("DATA", "CONFIG", "RUNTIME")}
    install = ("kernel", "install", "--name", "sand", "--virtualenv", sys.prefix, "--memory", "1024")
    subprocess.run([*PROGRAM, *install], check=True, env=found)
    return found


@contextlib.contextmanager
def serving(module: str, environ: dict[str, str], folder: Path, *, password: bool) -> Iterator[str]:
    """Start a server, and yield its address."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    kernel, port_name, token = SERVERS[module]
    secret = f"PasswordIdentityProvider.hashed_password={HASHED}" if password else f"{token}={SECRET}"
    options = (f"{kernel}=sand", f"{port_name}={port}", f"{port_name}_retries=0", secret, "ServerApp.allow_root=True")
    log = folder / "log"
    with log.open("w") as file:
        command = [sys.executable, "-m", module, *(f"--{one}" for one in options)]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environ, cwd=folder)
    try:
        deadline = time.monotonic() + 90
        while f":{port}" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(60)


def sign_in(client: httpx.Client, *, password: bool) -> dict[str, str]:
    """Return the query of each request; with a password it is empty, and the client has a cookie."""
    if not password:
        return {"token": SECRET}
    page = client.get("login")
    client.headers["X-XSRFToken"] = page.cookies["_xsrf"]
    answer = client.post("login", data={"_xsrf": page.cookies["_xsrf"], "password": SECRET}, follow_redirects=True)
    assert answer.is_success
    return {}


async def execute(url: str, headers: dict[str, str], code: str) -> dict[str, list[Any]]:
    """Return the contents of the answers to code by their type."""
    number, found = uuid.uuid4().hex, dict[str, list[Any]]()
    header = {"msg_id": number, "msg_type": "execute_request", "username": "user", "session": uuid.uuid4().hex}
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    message = {"header": {**header, "date": "", "version": "5.3"}, "parent_header": {}, "metadata": {}}
    async with websockets.connect(url, additional_headers=headers, open_timeout=90) as connection:
        await connection.send(
            json.dumps({**message, "content": {**content, "stop_on_error": True}, "channel": "shell"})
        )
        while True:
            answer = json.loads(await asyncio.wait_for(connection.recv(), 90))
            if answer.get("parent_header", {}).get("msg_id") == number:
                found.setdefault(answer["msg_type"], []).append(answer["content"])
                if answer["content"].get("execution_state") == "idle":
                    return found


@pytest.mark.parametrize(
    ("module", "password"), [("jupyter_server", False), ("jupyter_server", True), ("kernel_gateway", False)]
)
def test_open_webui_runs_code(module: str, password: bool, environ: dict[str, str], tmp_path: Path) -> None:
    with (
        serving(module, environ, tmp_path, password=password) as address,
        httpx.Client(base_url=address, timeout=90) as client,
    ):
        query = sign_in(client, password=password)
        kernel = client.post("api/kernels", params=query).raise_for_status().json()
        assert kernel["name"] == "sand"
        url = f"{address.replace('http', 'ws')}api/kernels/{kernel['id']}/channels"
        url += "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        headers = {"Cookie": cookies, "X-XSRFToken": client.headers["X-XSRFToken"]} if password else {}

        def run(code: str) -> dict[str, list[Any]]:
            return asyncio.run(execute(url, headers, code))

        first = run("import os\nx = 41\nprint(os.path.exists('/home'))")
        assert "".join(one["text"] for one in first["stream"]) == "False\n"
        assert run("x + 1")["execute_result"][0]["data"]["text/plain"] == "42"
        assert run("1 / 0")["error"][0]["ename"] == "ZeroDivisionError"
        assert client.delete(f"api/kernels/{kernel['id']}", params=query).status_code == 204
