"""Ask a service for each route that agent-sandbox's two runtimes have, as their own sources list them.

usage: routes.py SERVICE OPENAPI-OF-SANDBOXD PROGRAM-OF-PYTHON-RUNTIME

A route counts as there if its answer is that of the route, and not the problem of an unknown resource or method.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
from pathlib import Path

import yaml  # type: ignore[import]

# Requests of each route, in this order: those that write come before those that read, and those that delete at the end.
FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext\r\n--x--\r\n'
REQUESTS: dict[tuple[str, str], tuple[str, bytes | None, str, int, str]] = {
    # method and route: path, body, its type, status, and what the answer contains
    ("get", "/"): ("/", None, "", 200, '"status":"ok"'),
    ("post", "/execute"): ("/execute", b'{"command": "echo 42"}', "application/json", 200, '"stdout":"42\\n"'),
    ("post", "/upload"): ("/upload", FORM, "multipart/form-data; boundary=x", 200, '"message"'),
    ("get", "/download/{path}"): ("/download/a.txt", None, "", 200, "text"),
    ("get", "/list/{path}"): ("/list/.", None, "", 200, '"mod_time"'),
    ("get", "/exists/{path}"): ("/exists/a.txt", None, "", 200, '"exists":true'),
    ("put", "/v1/files/{path}"): ("/v1/files/d/b.txt", b"more", "application/octet-stream", 204, ""),
    ("get", "/v1/files/{path}"): ("/v1/files/d", None, "", 200, '"modified_at"'),
    ("delete", "/v1/files/{path}"): ("/v1/files/d/b.txt", None, "", 204, ""),
    ("get", "/v1/health"): ("/v1/health", None, "", 200, '"status":"ok"'),
    ("get", "/v1/metadata"): ("/v1/metadata", None, "", 200, '"env"'),
}


def routes_of(description: str, program: str) -> set[tuple[str, str]]:
    """Return method and path of each route that the two runtimes have."""
    found = {
        (method, f"/v1{path}")
        for path, item in yaml.safe_load(Path(description).read_text(encoding="utf-8"))["paths"].items()
        for method in item
        if method in {"get", "put", "post", "delete", "head", "patch"}
    }
    for method, path in re.findall(r'^@app\.(\w+)\("([^"]*)"', Path(program).read_text(encoding="utf-8"), re.MULTILINE):
        found.add((method, path.replace("{encoded_file_path:path}", "{path}")))
    return found


def main(service: str, description: str, program: str) -> None:
    """Ask for all of them."""
    routes = routes_of(description, program)
    assert routes == set(REQUESTS), f"a route has no request here, or is gone: {routes ^ set(REQUESTS)}"
    for (method, _), (path, body, kind, status, contains) in REQUESTS.items():
        connection = http.client.HTTPConnection(service, timeout=120)
        headers = {"X-Pysbx-Token": os.environ["PYSBX_TOKEN"], **({"Content-Type": kind} if kind else {})}
        connection.request(method.upper(), path, body, headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        assert (answer.status, contains in said) == (status, True), f"{method} {path}: {answer.status} {said}"
        connection.close()
    print(json.dumps(sorted(map(" ".join, routes))))


main(*sys.argv[1:])
