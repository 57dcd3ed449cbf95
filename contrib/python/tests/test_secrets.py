"""Secrets that a sandbox uses and never sees: a real server, real TLS, real clients, and code that looks for them."""

# once: except for the tests with the mark "root", the caller's rights make no difference

from __future__ import annotations

import argparse
import copy
import http.server
import importlib
import json
import os
import pickle
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

import pysbx.network.proxy
from pysbx import Execution, Sandbox, SandboxExecutionError, SandboxOptionError, run_code
from pysbx.base.directories import run_directory
from pysbx.base.runtime import build_snapshot
from pysbx.calls.prepare import prepare
from pysbx.command.kernel import words_of
from pysbx.network.proxy import Proxy
from pysbx.options import command_line
from pysbx.options.options import make_options
from tests.servers import PROGRAM

# Code that looks for it must not have it: LIKE_IT matches no text that is written like this.
SECRET, LIKE_IT = "sk-live-" + "0123456789abcdef" * 2, "sk-l[i]ve-[0-9a-f]{8}"
HEADERS = {"Authorization": f"Bearer {SECRET}"}


@dataclass
class Api:
    """A server of some names, each at a port of its own.

    Attributes:
        ports: by name; "plain" speaks plain HTTP.
        got: each request: name of the port, request line, fields.
    """

    ports: dict[str, int] = field(default_factory=dict)
    got: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def authorized(self) -> list[tuple[str, str]]:
        """Return the requests that had the secret."""
        return [(name, line) for name, line, fields in self.got if SECRET in json.dumps(fields)]

    def url(self, name: str, path: str = "/") -> str:
        """Return a URL at a port."""
        return f"http{'s' * (name != 'plain')}://{'api.test' if name == 'plain' else name}:{self.ports[name]}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the path; /to/NAME leads to another port."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, and keep the request."""
        api, name = self.server.api, self.server.called  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        api.got.append((name, self.requestline, {key.lower(): value for key, value in self.headers.items()}))
        found = re.fullmatch(r"/to/([a-z.]+)", self.path)
        body = b"answer to " + self.path.encode()
        self.send_response(302 if found else 200)
        if found:
            self.send_header("Location", api.url(found[1], "/there"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_TRACE = do_GET  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def make_certificate(directory: Path, name: str) -> Path:
    """Return a certificate for a name, with its key: its own authority."""
    key, made = directory / f"{name}.key", directory / f"{name}.pem"
    if made.exists():
        return made
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {made} -days 2 -subj /CN={name}"
    subprocess.run([*command.split(), "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + key.read_bytes())
    return made


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The server, which this machine trusts for api.test and other.test, and not for strange.test."""
    if shutil.which("openssl") is None:
        pytest.skip("program openssl is not installed")
    directory, found = tmp_path_factory.mktemp("tls"), Api()
    with ExitStack() as stack:
        for name in ("plain", "api.test", "other.test", "strange.test", "wrong.test"):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.api, server.called = found, name  # type: ignore[attr-defined]
            if name != "plain":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                made = make_certificate(directory, "api.test" if name == "wrong.test" else name)
                context.load_cert_chain(made)
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            found.ports[name] = server.server_address[1]
            threading.Thread(target=server.serve_forever).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
        trusted = directory / "trusted.pem"
        trusted.write_bytes(b"".join((directory / f"{name}.pem").read_bytes() for name in ("api.test", "other.test")))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SSL_CERT_FILE", str(trusted))
        patch.setattr(pysbx.network.proxy, "Proxy", local)
        yield found


def local(hosts: Any) -> Proxy:
    """Return a proxy for which every name is this machine, and that is allowed."""

    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    return Proxy(hosts, lambda address: True, resolve)


def run(api: Api, source: str, *, hosts: Any = None, secrets: Any = None, **options: Any) -> Execution:
    """Run a program that may use all ports, with a secret for api.test."""
    api.got.clear()
    names = [f"{'api.test' if name == 'plain' else name}:{port}" for name, port in api.ports.items()]
    secrets = {f"api.test:{api.ports['api.test']}": HEADERS} if secrets is None else secrets
    done = run_code(source, allow_network=hosts or names, secrets=secrets, **options)
    assert SECRET not in repr(done)
    return done


CLIENTS = {
    "urllib": "import urllib.request as r\n"
    "print(r.urlopen(r.Request({url!r}, headers={{'authorization': 'mine'}})).read().decode())",
    "requests": "import requests\nprint(requests.get({url!r}, headers={{'authorization': 'mine'}}).text)",
    "httpx": "import httpx\nprint(httpx.get({url!r}, headers={{'authorization': 'mine'}}).text)",
    "aiohttp": "import aiohttp, asyncio\nasync def main():\n"
    "    async with aiohttp.ClientSession(trust_env=True) as session:\n"
    "        print(await (await session.get({url!r}, headers={{'authorization': 'mine'}})).text())\n"
    "asyncio.run(main())",
    "a list of its own": "import certifi, httpx, ssl\nown = ssl.create_default_context(cafile=certifi.where())\n"
    "print(httpx.get({url!r}, headers={{'authorization': 'mine'}}, verify=own).text)",
    "curl": "import subprocess\nprint(subprocess.run(['curl', '-sS', '-H', 'authorization: mine', {url!r}],"
    " capture_output=True, text=True).stdout)",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_inside_needs_no_secret(client: str, api: Api, virtualenv: str) -> None:
    """The server gets the caller's field in place of the one that the program sends. TLS works with no setting."""
    if client == "curl" and shutil.which("curl") is None:
        pytest.skip("program curl is not installed")
    options: Any = {"preload": ["aiohttp"]} if client == "aiohttp" else {}  # it makes its context when it is imported
    done = run(api, CLIENTS[client].format(url=api.url("api.test", "/v1")), virtualenv=virtualenv, **options)
    assert (done.stdout.strip(), done.stderr) == ("answer to /v1", ""), done.error
    ((name, line, fields),) = api.got
    assert (name, line, fields["authorization"]) == ("api.test", "GET /v1 HTTP/1.1", HEADERS["Authorization"])


def test_a_secret_goes_to_its_host_only(api: Api) -> None:
    """Not to other names, also after a redirect, and not into plain HTTP, where it was meant for TLS."""
    source = (
        "import ssl, urllib.request as r\n"
        "ssl._create_default_https_context = ssl._create_unverified_context\n"  # other.test passes unread
        "for url in URLS: print(r.urlopen(url).read().decode())"
    )
    urls = [api.url("api.test", "/to/other.test"), api.url("plain"), api.url("other.test"), api.url("api.test", "/a")]
    done = run(api, source.replace("URLS", repr(urls)))
    assert done.stdout.split("\n")[:-1] == ["answer to /there", "answer to /", "answer to /", "answer to /a"]
    assert api.authorized() == [("api.test", f"GET {path} HTTP/1.1") for path in ("/to/other.test", "/a")]
    assert len(api.got) == 5


def test_a_secret_for_plain_http(api: Api) -> None:
    """The key says so. A field of another case, with "_" or there twice is replaced too."""
    source = (
        "import socket\nfor target in (URL, '/tunnel'):\n"
        "    s = socket.create_connection(('127.0.0.1', 1080))\n"
        "    if target == '/tunnel': s.sendall(b'CONNECT HOST HTTP/1.1\\r\\n\\r\\n'); s.recv(99)\n"
        "    s.sendall(f'GET {target} HTTP/1.1\\r\\nHost: HOST\\r\\nx_api-KEY: a\\r\\nX-Api-Key: b\\r\\n"
        "Connection: close, X-Api-Key\\r\\n\\r\\n'.encode())\n"
        "    print(s.recv(15).decode())"
    )
    port = api.ports["plain"]
    source = source.replace("URL", repr(api.url("plain", "/direct"))).replace("HOST", f"api.test:{port}")
    done = run(api, source, secrets={f"http://api.test:{port}": {"X-Api-Key": SECRET}})
    assert done.stdout == "HTTP/1.1 200 OK\n" * 2, done.error
    assert [(line, fields.get("x-api-key"), "x_api-key" in fields) for _, line, fields in api.got] == [
        (f"GET {path} HTTP/1.1", SECRET, False) for path in ("/direct", "/tunnel")
    ]


def test_rules_hold_within_tls(api: Api) -> None:
    """Both those of allow_network and those of a secret."""
    port = api.ports["api.test"]
    source = (
        "import urllib.request as r, urllib.error\n"
        "for method, path in (('GET', '/v1/a'), ('GET', '/v1/keys'), ('POST', '/v1/a'), ('GET', '/v2')):\n"
        "    try: print(r.urlopen(r.Request(URL + path, method=method)).read().decode())\n"
        "    except urllib.error.HTTPError as error: print(error)"
    )
    done = run(
        api,
        source.replace("URL", repr(api.url("api.test", ""))),
        hosts=[{"host": f"api.test:{port}", "methods": ["GET"], "paths": ["/v1/*"]}],
        secrets={f"GET api.test:{port}/v1/keys": HEADERS},
    )
    refusal = f"HTTP Error 403: host 'api.test' allows GET api.test:{port}/v1/*, and no other request"
    assert done.stdout.splitlines() == ["answer to /v1/a", "answer to /v1/keys", refusal, refusal], done.error
    assert api.authorized() == [("api.test", "GET /v1/keys HTTP/1.1")]
    assert len(api.got) == 2


RAW = """
import json, socket, ssl
answers = []
for name, head in HEADS:
    raw = socket.create_connection(('127.0.0.1', 1080))
    raw.sendall(b'CONNECT api.test:PORT HTTP/1.1\\r\\n\\r\\n')
    assert b' 200 ' in raw.recv(1000)
    try:
        with ssl.create_default_context().wrap_socket(raw, server_hostname=name) as tls:
            tls.sendall(head.encode())
            answers.append(tls.recv(1000).decode().split('\\r\\n')[0])
    except OSError as error:
        answers.append(type(error).__name__)
print(json.dumps(answers))
"""


def test_what_two_parsers_may_read_differently_does_not_get_the_secret(api: Api) -> None:
    port, other = (api.ports[name] for name in ("api.test", "other.test"))
    host = f"Host: api.test:{port}\r\n"
    refused = [
        f"GET / HTTP/1.1\r\nHost: other.test:{other}\r\n\r\n",
        f"GET / HTTP/1.1\r\n{host}Host: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        f"GET https://other.test:{other}/ HTTP/1.1\r\n{host}\r\n",
        f"GET http://api.test:{port}/ HTTP/1.1\r\n{host}\r\n",
        f"CONNECT other.test:{other} HTTP/1.1\r\n{host}\r\n",
        f"TRACE / HTTP/1.1\r\n{host}\r\n",
        f"GET / HTTP/1.1\n{host}\r\n\r\n",
        f"GET / HTTP/1.1\r\n{host}X: a\n b\r\n\r\n",
        f"POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"POST / HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        f"GET / HTTP/2.0\r\n{host}\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]
    passed = [
        f"GET /1 HTTP/1.1\r\n{host}\r\nGET /2 HTTP/1.1\r\n{host}\r\n",
        # Some servers do not tell "_" from "-".
        f"POST /3 HTTP/1.1\r\n{host}Content-Length: 2\r\nContent_Length: 0\r\n\r\nxxGET /4 HTTP/1.1\r\n{host}\r\n",
    ]
    heads = [("api.test", head) for head in (*refused, *passed)] + [("other.test", passed[0])]
    done = run(api, RAW.replace("HEADS", repr(heads)).replace("PORT", str(port)))
    answers = json.loads(done.stdout)
    assert {answer[:12] for answer in answers[: len(refused)]} == {"HTTP/1.1 403"}
    assert answers[len(refused) : -1] == ["HTTP/1.1 200 OK"] * 2
    assert answers[-1].endswith("Error")  # TLS for another name than that of the tunnel
    assert [line for _, line, _ in api.got] == ["GET /1 HTTP/1.1", "POST /3 HTTP/1.1"]
    assert api.got[1][2]["content-length"] == "2" and "content_length" not in api.got[1][2]


def test_the_host_is_verified_before_it_gets_the_secret(api: Api) -> None:
    """By the authorities that this machine trusts. The one of the sandbox is good for nothing outside."""
    names = ("strange.test", "wrong.test")
    source = (
        "import urllib.request as r, urllib.error\n"
        "for url in URLS:\n    try: r.urlopen(url)\n    except urllib.error.HTTPError as error: print(error)"
    )
    secrets = {f"{name}:{api.ports[name]}": HEADERS for name in names}
    done = run(api, source.replace("URLS", repr([api.url(name) for name in names])), secrets=secrets)
    strange, wrong = done.stdout.splitlines()
    assert re.search(r"502: host 'strange.test', port \d+: no TLS with it: self.signed certificate", strange)
    assert "no TLS with it: Hostname mismatch, certificate is not valid for 'wrong.test'" in wrong
    assert api.got == []


SEARCH = """
import os, pathlib, re, urllib.request
urllib.request.urlopen(URL).read()
like, found, seen = re.compile(LIKE.encode()), [], 0
def look(name, data):
    global seen
    seen += len(data)
    if like.search(data): found.append(name)
for line in open('/proc/self/maps'):
    begin, end = (int(part, 16) for part in line.split()[0].split('-'))
    try:
        with open('/proc/self/mem', 'rb', 0) as file:
            file.seek(begin)
            look(line, file.read(end - begin))
    except (OSError, ValueError, OverflowError): pass
for process in pathlib.Path('/proc').glob('[0-9]*'):
    for name in ('environ', 'cmdline', 'mountinfo', 'maps'):
        try: look(f'{process}/{name}', (process / name).read_bytes())
        except OSError: pass
for top in ('/run', '/etc', '/tmp', '/work', '/output', '/dev/shm', '/.pysbx'):
    for path in pathlib.Path(top).rglob('*'):
        try: look(str(path), path.read_bytes() if path.is_file() else b'')
        except OSError: pass
look('environ', repr(os.environ).encode())
print(found, seen > 1_000_000)
print(sorted(os.listdir('/run/pysbx-proxies')), open('/proc/self/mountinfo').read().count('/proxies/own-'))
"""


@pytest.mark.root
def test_code_cannot_find_the_secret(api: Api) -> None:
    """Not in memory, variables, command lines, mounts and files. The directory of sockets has one socket."""
    code = SEARCH.replace("URL", repr(api.url("api.test"))).replace("LIKE", repr(LIKE_IT))
    done = run(api, code)
    assert done.stdout == f"[] True\n['{os.getpid()}', 'authorities.pem'] 1\n", done.error
    assert len(api.authorized()) == 1
    marked = run(api, code.replace("look('environ'", f"look('env', b'{SECRET[:30]}')\nlook('environ'"))
    assert "'env'" in marked.stdout  # the search finds it if it is there


# A program with a secret in the decorator of a function.
LITERAL = f"""
from pysbx import sandbox

class Client:
    @staticmethod
    @sandbox(
        secrets={{"api.test": {HEADERS}}},
        allow_network=["api.test"],
    )
    def ask(fails):
        import linecache
        text = '''
def of a text
'''
        return repr(linecache.cache) if not fails else 1 / 0
"""


def test_a_decorated_function_takes_no_secret_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox gets the source of a function for tracebacks, without its decorators."""
    (tmp_path / "with_a_literal.py").write_text(LITERAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    ask = importlib.import_module("with_a_literal").Client.ask
    seen = ask(fails=False)
    assert "def of a text" in seen and SECRET not in seen
    with pytest.raises(SandboxExecutionError) as raised:
        ask(fails=True)
    where = "line 15, in ask\n    return repr(linecache.cache) if not fails else 1 / 0\n"
    assert where in raised.value.traceback_str


@pytest.mark.root
def test_sandboxes_with_other_secrets_have_other_sockets_and_authorities(api: Api) -> None:
    """No sandbox can use another one's secret, or be deceived by its authority."""
    source = "import os\nprint(open('/run/pysbx-proxies/authorities.pem').read())"
    first, second = (run(api, source, secrets={f"api.test:{api.ports['api.test']}": {"X-Key": key}}) for key in "ab")
    assert len({first.stdout, second.stdout, run(api, source).stdout}) == 3
    own = list((run_directory() / "proxies").glob("own-*"))
    assert len(own) >= 3
    assert "PRIVATE" not in "".join(file.read_text() for path in own for file in path.glob("*.pem"))


def test_a_session_and_its_fork(api: Api) -> None:
    source = f"import urllib.request\nprint(urllib.request.urlopen({api.url('api.test')!r}).read().decode())"
    api.got.clear()
    host = f"api.test:{api.ports['api.test']}"
    options: Any = {"allow_network": [host], "secrets": {host: HEADERS}}
    if reason := build_snapshot(str(prepare(make_options(**options)).path)):
        pytest.skip(reason)
    with Sandbox(**options, warm="require") as session:
        assert session.run(source).stdout == "answer to /\n"
        with session.fork() as fork:
            assert fork.run(source).stdout == "answer to /\n"
    assert len(api.authorized()) == 2


def test_the_authority_ends_with_the_program(tmp_path: Path) -> None:
    """It is for the named hosts only. A file has the secrets, because others can read a command line."""
    before = set((run_directory() / "proxies").glob("own-*"))
    secrets = tmp_path / "secrets.toml"
    secrets.write_text(f'["api.test"]\nAuthorization = "Bearer {SECRET}"\n')
    source = "import os; print(os.environ['SSL_CERT_FILE']); print(open(os.environ['REQUESTS_CA_BUNDLE']).read())"
    command = [*PROGRAM, "run", "--network", "api.test", "--secrets", str(secrets), "-c", source]
    done = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(2)]
    path, first = done[0].stdout.split("\n", 1)
    assert path == "/run/pysbx-proxies/authorities.pem"
    assert first != done[1].stdout.split("\n", 1)[1]
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-text"],
        input="-----BEGIN" + first.strip().rpartition("-----BEGIN")[2],
        check=True,
        capture_output=True,
        text=True,
    )
    assert re.search(r"Name Constraints: critical\s+Permitted:\s+DNS:api.test\n", shown.stdout)
    assert all(SECRET not in one.stdout + one.stderr for one in done)
    assert set((run_directory() / "proxies").glob("own-*")) == before


def test_a_specification_of_a_kernel_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its command line has no secret, and is good in each directory. The text of a wrong file is not shown."""
    (tmp_path / "s.toml").write_text(f'["api.test"]\nAuthorization = "Bearer {SECRET}"\n')
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    command_line.add(parser)
    arguments = parser.parse_args(["--secrets", "s.toml"])
    assert words_of(arguments) == [f"--secrets={tmp_path}/s.toml"]
    assert SECRET not in str(arguments)
    assert command_line.given(arguments)["secrets"] == {"api.test": HEADERS}
    (tmp_path / "s.toml").write_text(f'["api.test"]\nAuthorization = {SECRET}\n')
    with pytest.raises(SystemExit):
        parser.parse_args(["--secrets", "s.toml"])
    said = capsys.readouterr().err
    assert "argument --secrets: 's.toml': not TOML" in said
    assert SECRET not in said


def test_no_text_shows_a_secret() -> None:
    options = make_options(allow_network=["api.test"], secrets={"api.test": HEADERS})
    texts = [repr(options), str(options.secrets), str(asdict(options)), *map(str, options.secrets)]
    assert [text for text in texts if SECRET in text] == []
    assert str(options.secrets[0]) == "Authorization for https://api.test:443"
    assert copy.deepcopy(options) == options != make_options(options, secrets={"api.test": {"Authorization": "x"}})
    with pytest.raises(TypeError, match="a secret is not pickled"):
        pickle.dumps(options)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"other.test": HEADERS}, "host 'other.test', port 443, is not among the hosts of allow_network"),
        ({"http://api.test:8080": HEADERS}, "host 'api.test', port 8080, is not among"),
        ({"*.api.test": HEADERS}, "a secret is for one host"),
        ({"api.test:80": HEADERS}, "port 80 is plain HTTP: begin with http://"),
        ({"https://api.test/": HEADERS}, "is not a host name"),
        ({"api.test": {"Host": SECRET}}, "Host belongs to the connection"),
        ({"api.test": {"Content-Length": SECRET}}, "Content-Length belongs to the connection"),
        ({"api.test": {f"Bearer {SECRET}": "Authorization"}}, "the name of a field is not one such as Authorization"),
        ({"api.test": {"Authorization": f"{SECRET}\r\nX: y"}}, "is not a string of printable ASCII characters"),
        ({"api.test": {"Authorization": f"{SECRET}é"}}, "is not a string of printable ASCII characters"),
        ({"api.test": {"Authorization": SECRET.encode()}}, "is not a string of printable ASCII characters"),
        ({"api.test": {"Authorization": ""}}, "is not a string of printable ASCII characters"),
        ({"api.test": HEADERS, "https://api.test:443": {"authorization": SECRET}}, "authorization is there twice"),
        ({"api.test": f"Bearer {SECRET}"}, "its fields are not a mapping"),
        ({"api.test": {}}, "its fields are not a mapping"),
        ({"API_KEY": SECRET}, "a variable of the program belongs to env"),
        (f"Bearer {SECRET}", "a str is not a mapping"),
    ],
)
def test_what_is_not_a_secret(given: Any, reason: str) -> None:
    """The error never has the value."""
    with pytest.raises(SandboxOptionError) as caught:
        make_options(allow_network=["api.test"], secrets=given)
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


def test_without_the_module_for_certificates() -> None:
    source = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pysbx import run_code\n"
        "for given in ({'secrets': {'api.test': {'A': 'b'}}, 'allow_network': ['api.test']},\n"
        "        {'allow_network': ['GET api.test']}):\n"
        "    try: run_code('1', **given)\n    except ValueError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True).stdout
    text = (
        "host 'api.test': the proxy has to read requests in TLS, and there is no module cryptography: install the wheel"
    )
    assert [line.partition(" of pysbx")[0] for line in said.splitlines()] == [
        f"secrets: {text}",
        f"allow_network: {text}",
    ]
