"""`pysbx serve`: the tokens of callers, the bounds of requests, and a stop that leaves nothing behind."""

# once: a server says the same to its clients as root

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet, ref

import httpx
import pytest
from fastapi import Response

from pysbx.calls.execution import Execution, run_chosen
from pysbx.command import main
from pysbx.container import limits
from pysbx.container.process import Cancelled
from pysbx.options.options import make_options
from pysbx.service.connections import access, admission, json_bounds
from pysbx.service.connections.problems import Problem
from pysbx.service.http import idempotency
from pysbx.service.observe.audit import Audit
from pysbx.service.sandboxes import choices
from pysbx.service.sandboxes.fair_pool import FairPool
from pysbx.service.sandboxes.jobs import Jobs
from tests.packages import make_wheel
from tests.servers import BEST_EFFORT, PROGRAM, TOKEN, Server, children_of, containers_of, server, wait_until
from tests.test_service import SLEEP, problem, start


def test_more_than_there_are_places_for(tmp_path: Path) -> None:
    options = ("--at-once", "1", "--waiting", "1", "--sessions", "1", "--idle", "1", "--request-size", "1")
    with server(*options, listen=f"unix:{tmp_path}/s") as service:
        with ThreadPoolExecutor(2) as pool:
            slow = [pool.submit(service.run, "import time; time.sleep(3); print(1)") for _ in range(2)]
            time.sleep(1.5)
            refused = service.post("/v1/run", code="1")
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) > 0
            assert "2 requests" in problem(refused)["detail"]
            assert service.client.get("/health").json() == {"status": "ok"}
            assert [done.result()["stdout"] for done in slow] == ["1\n"] * 2
        assert service.run("2 + 2")["value"] == "4"

        large = b'{"code": "' + b"#" * (1 << 20) + b'"}'
        announced = service.client.post("/v1/run", content=large)
        in_parts = service.client.post("/v1/run", content=(large[i : i + 4096] for i in range(0, len(large), 4096)))
        for answer in (announced, in_parts):
            assert answer.status_code == 413
            assert problem(answer)["limit"] == 1 << 20
            assert "ask the operator of this server for --request-size" in problem(answer)["remedy"]

        place = start(service)
        refused = service.post("/v1/sessions")
        assert (refused.status_code, problem(refused)["title"]) == (429, "no further session is allowed")
        wait_until(lambda: containers_of(service.process.pid) == [], 5)
        answer = service.post(f"{place}/run", code="1")
        assert answer.status_code == 410
        assert problem(answer)["detail"] == "it was not used for 1 seconds"
        start(service)


def example() -> str:
    """Return the requests of the page about the service; skip the test without a curl that can send them."""
    page = Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "service.md"
    (found,) = re.findall(r"```sh\n(socket=.*?)```", page.read_text(), re.DOTALL)
    if "--json" not in subprocess.run(["curl", "--help", "all"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this curl is older than 7.82, and has no option --json")
    return str(found)


@pytest.mark.parametrize("without", [(), ("XDG_RUNTIME_DIR", "TMPDIR")], ids=["login", "su or cron"])
def test_the_example_of_the_documentation(without: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    readme, command = Path(__file__).parents[1] / "README.md", ["bash", "-euc", example()]
    for name in without:
        monkeypatch.delenv(name, raising=False)
    with server(listen="") as service:
        done = subprocess.run(command, cwd=readme.parent, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        for part in ('"stdout":"42\\n"', '"value":"\'text\'"', 'event: stdout\ndata: {"text": "2\\n"}', '"value":"'):
            assert part in done.stdout
        assert f'"value":"{len(readme.read_text())}"' in done.stdout
        assert containers_of(service.process.pid) == []


def test_the_example_says_that_there_is_no_service() -> None:
    done = subprocess.run(["bash", "-euc", example()], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "connect" in done.stderr


def test_tokens(tmp_path: Path) -> None:
    other = "another-token-for-tests"
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n{other}\n")
    with server("--token-file", str(file), listen="127.0.0.1:0", token=TOKEN) as service:
        assert service.run("1 + 1")["value"] == "2"
        place = start(service)
        for wrong in ("", "wrong", TOKEN[:-1], TOKEN + "x", "\xff"):
            headers = [(b"Authorization", f"Bearer {wrong}".encode("latin-1"))] if wrong else []
            answer = httpx.post(f"http://{service.address}/v1/run", json={"code": "1"}, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            problem(answer)
        assert httpx.get(f"http://{service.address}/v1/profiles").status_code == 401
        assert httpx.get(f"http://{service.address}/v1/profiles", auth=("x", TOKEN)).status_code == 401
        assert httpx.get(f"http://{service.address}/health").status_code == 200
        with service.connect(other) as client:
            assert client.post("/v1/run", json={"code": "1"}).status_code == 200
            answer = client.post(f"{place}/run", json={"code": "1"})
            assert problem(answer)["status"] == 404
            assert client.delete(place).status_code == 404
        assert service.post(f"{place}/run", code="1").status_code == 200


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return why a server does not start."""
    assert main(["serve", BEST_EFFORT, "--listen", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pysbx: ")
    return said


def test_servers_that_do_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"unix:{tmp_path}/s"
    assert "needs a token" in refused(capsys, "127.0.0.1:0")
    assert "needs a token" in refused(capsys, "0.0.0.0:0")
    assert "neither unix:PATH nor HOST:PORT" in refused(capsys, "8080")
    assert "not a socket" in refused(capsys, f"unix:{PROGRAM[0]}")
    assert "profile 'none'" in refused(capsys, path, "--allow-profile", "none")
    assert "not a requirement" in refused(capsys, path, "--allow-package", "-e .")
    assert "sessions" in refused(capsys, path, "--sessions", "0")
    assert "No such file" in refused(capsys, path, "--token-file", f"{tmp_path}/none")
    (tmp_path / "empty").touch()
    assert "it is empty" in refused(capsys, path, "--token-file", f"{tmp_path}/empty")
    (tmp_path / "named").write_text(f"{'a' * 32}\nthe-service-of-alice {'b' * 32}\n")
    assert "line 2: one token a line" in refused(capsys, path, "--token-file", f"{tmp_path}/named")
    (tmp_path / "binary").write_bytes(b"\xff")
    assert f"token file '{tmp_path}/binary'" in refused(capsys, path, "--token-file", f"{tmp_path}/binary")
    assert f"listen: '{tmp_path}/none': No such" in refused(capsys, f"unix:{tmp_path}/none/s")
    long = f"{tmp_path}/{'a' * 110}"
    assert f"listen: '{long}': AF_UNIX path too long" in refused(capsys, f"unix:{long}")
    monkeypatch.setenv("PYSBX_TOKEN", "short")
    assert "at least 16" in refused(capsys, "127.0.0.1:0")
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)
    assert "listen: host.invalid:80: " in refused(capsys, "host.invalid:80")
    monkeypatch.setenv("PYSBX_TOKEN", TOKEN)  # it has been taken out
    assert f"listen: {'a' * 64}.invalid:80: " in refused(capsys, f"{'a' * 64}.invalid:80")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_a_server_does_not_start_with_rlimits_unless_it_is_told_to(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = dict.fromkeys(limits.CONTROLLERS, "rlimit")
    monkeypatch.setattr(limits, "enforcement", lambda: limits.Enforcement(kinds, "there is none"))
    assert main([command, "--listen", f"unix:{tmp_path}/s", "--memory", "64", "--processes", "1"]) == 125
    said = capsys.readouterr().err
    assert "no cgroup controller for memory, cpu, pids: there is none" in said
    assert re.search(r"rlimits bound memory by \d+ MiB only", said)
    assert "--best-effort" in said
    assert not (tmp_path / "s").exists()


def test_a_server_that_can_make_no_sandbox_does_not_start(tmp_path: Path) -> None:
    command = [*PROGRAM, "serve", "--listen", f"unix:{tmp_path}/s"]
    variables = {**os.environ, "PYSBX_RUNTIME": "/none"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, "PYSBX_RUNTIME is '/none'" in done.stderr) == (125, True)
    assert not (tmp_path / "s").exists()


def test_what_an_extra_brings_is_named() -> None:
    program = "import sys; sys.modules['fastapi'] = None; from pysbx.command import main; sys.exit(main(['serve']))"
    done = subprocess.run([PROGRAM[0], "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "pysbx: the package 'fastapi' is missing: install the wheel of pysbx with the extra 'service'\n",
    )


def test_mcp_needs_nothing_that_other_extras_bring() -> None:
    hidden = "for name in ('fastapi', 'prometheus_client', 'wsproto'): sys.modules[name] = None"
    program = f"import sys\n{hidden}\nfrom pysbx.command import main\nsys.exit(main(['mcp', '--best-effort']))"
    begun = [PROGRAM[0], "-c", program]
    done = subprocess.run(begun, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, "is missing" in done.stderr) == (0, False), done.stderr


def test_a_socket_is_its_users_and_one_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    address = access.parse_address(f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    # Each user that may read the directory of the socket can lock it.
    with subprocess.Popen(["flock", "--no-fork", str(tmp_path), "sleep", "60"]) as other:
        wait_until(lambda: subprocess.run(["flock", "-n", str(tmp_path), "true"], check=False).returncode != 0)
        listener = access.listen(address, access.Access())
        other.terminate()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "another server" in refused(capsys, str(address))
    access.unlisten(address, listener)
    assert not path.exists()


def test_a_request_may_end_before_the_server_stops(tmp_path: Path) -> None:
    """SIGTERM: no new connections, and time for runs. A second one, or SIGINT, does not wait."""
    for second in (None, signal.SIGTERM, signal.SIGINT):
        with server("--drain", "60", listen=f"unix:{tmp_path}/s") as service, ThreadPoolExecutor(1) as pool:
            service.run("1")
            code = "import time; time.sleep(3); 6 * 7" if second is None else SLEEP
            answer = pool.submit(service.post, "/v1/run", code=code)
            wait_until(lambda: containers_of(service.process.pid) != [])
            if second is not signal.SIGINT:
                service.process.send_signal(signal.SIGTERM)
                wait_until(lambda: _refuses(tmp_path / "s"))
            if second is None:
                assert answer.result().json()["value"] == "42"
            else:
                service.process.send_signal(second)
                assert "stopping" in problem(answer.result())["title"]
            assert service.process.wait(30) == 0
        said = [line for line in service.log if "the server stops: " in line]
        assert len(said) == 1 and f"runs have {0 if second is signal.SIGINT else 60} seconds to end" in said[0]


def _refuses(path: Path) -> bool:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=0.5) as client:
        try:
            client.get("/health")
        except httpx.ConnectError:
            return True
    return False


def test_stopping_ends_all_that_runs(tmp_path: Path) -> None:
    with server("--at-once", "2", "--drain", "0.5", listen=f"unix:{tmp_path}/s") as service:
        pid, place = service.process.pid, start(service)
        events, code = {"Accept": "text/event-stream"}, {"code": f"print('up', flush=True); {SLEEP}"}
        with (
            ThreadPoolExecutor(2) as pool,
            service.client.stream("POST", f"{place}/run", json=code, headers=events) as streamed,
        ):
            lines = streamed.iter_lines()
            assert any("up" in line for line in lines)  # the session runs in one of the two places
            answers = [pool.submit(service.post, "/v1/run", code=SLEEP) for _ in range(2)]
            wait_until(lambda: len(containers_of(pid)) == 2)
            time.sleep(1)
            began, children = time.monotonic(), children_of(pid)
            assert len(children) == 3  # two containers, and the watcher over them
            service.process.send_signal(signal.SIGTERM)
            assert {answer.result().status_code for answer in answers} <= {503, 410}
            assert all("stopping" in problem(answer.result())["title"] for answer in answers)
            assert any("stopping" in line for line in lines)
        assert service.process.wait(15) == 0
        assert time.monotonic() - began < 15
        wait_until(lambda: not any(child.exists() for child in children))


def test_a_server_that_is_killed_leaves_no_container(tmp_path: Path) -> None:
    command = [*PROGRAM, "serve", BEST_EFFORT, "--listen", f"unix:{tmp_path}/s"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and " at unix:" in process.stderr.readline()
    with httpx.Client(transport=httpx.HTTPTransport(uds=f"{tmp_path}/s"), base_url="http://pysbx") as client:

        def ask() -> None:
            with pytest.raises(httpx.HTTPError):
                client.post("/v1/run", json={"code": SLEEP}, timeout=30)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: containers_of(process.pid) != [])
        process.kill()
        process.wait()
        thread.join()
    process.stderr.close()
    wait_until(lambda: containers_of(process.pid) == [])


def test_packages_are_those_that_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_wheel(tmp_path, "Some_thing", "1.0", "version = 1\n")
    options = ("--allow-package", "some-thing<2", "--wheels", str(tmp_path))
    with server(*options, listen=f"unix:{tmp_path}/s") as service:
        source = "import Some_thing; print(Some_thing.version)"
        assert service.run(source)["error"]["type"] == "ModuleNotFoundError"
        assert service.run(source, packages=["some.Thing"])["stdout"] == "1\n"
        answer = service.post("/v1/run", code="1", packages=["other"])
        assert "not one of: some-thing" in problem(answer)["detail"]


def test_a_run_that_ends_while_the_server_stops_is_no_error() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(_: int) -> Execution:
        begun.set()
        assert go.wait(10)
        return Execution()

    async def test() -> Execution:
        jobs = Jobs(1)
        running = asyncio.ensure_future(jobs.run(work, make_options()))
        await asyncio.to_thread(begun.wait)
        closing = asyncio.ensure_future(jobs.close())
        await asyncio.sleep(0.1)
        go.set()
        assert await closing
        return await running

    assert asyncio.run(test()) == Execution()


def test_calls_that_are_given_up_take_no_turn_and_nothing_is_kept_of_them() -> None:
    class Body:
        """The body of a request."""

    pool, go, order = FairPool(1), threading.Event(), list[str]()

    def submit(caller: str) -> Future[None]:
        body = Body()
        bodies.add(body)
        return pool.submit(caller, lambda: order.append(caller if body else ""))

    bodies = WeakSet[Body]()
    pool.submit("one", partial(go.wait, 5))
    given_up = [submit("one") for _ in range(9)]
    others = [submit("two") for _ in range(3)]
    again = submit("one")
    assert all(one.cancel() for one in given_up)
    assert len(bodies) == 4
    go.set()
    wait([again, *others], 10)
    assert order.index("one") <= 1 and len(order) == 4, order
    assert not pool.submit("two", bodies.__len__).result(10)
    pool.shutdown()


def test_large_requests_of_a_caller_are_decoded_in_turns_with_those_of_another() -> None:
    order = list[str]()

    def work(who: str) -> None:
        time.sleep(0.1)
        order.append(who)

    async def test() -> None:
        jobs, tasks = Jobs(1), list[asyncio.Future[None]]()
        for who in ("one", "one", "one", "two"):
            admission.caller.set(who)
            tasks.append(asyncio.ensure_future(jobs.aside(partial(work, who))))
        await asyncio.gather(*tasks)

    asyncio.run(test())
    assert order.index("two") <= 2, order


def test_a_call_that_fails_keeps_nothing_after_its_end() -> None:
    class Body:
        """The body of a request."""

    def fail(_: Body) -> None:
        raise ValueError

    pool, body = FairPool(1), Body()
    kept = ref(body)
    with pytest.raises(ValueError):
        pool.submit("one", partial(fail, body)).result(10)
    del body
    pool.submit("one", int).result(10)
    assert kept() is None
    pool.shutdown()


def test_a_call_for_which_no_thread_can_be_started_is_not_done_and_the_next_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test() -> None:
        jobs, done = Jobs(1), list[int]()
        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as short:
            short.setattr(threading.Thread, "start", refuse)
            for begin in (jobs.aside(partial(done.append, 1)), jobs.run(done.append)):
                with pytest.raises(RuntimeError, match="can't start"):
                    await begin
        assert len(os.listdir("/proc/self/fd")) == before
        await asyncio.wait_for(jobs.aside(partial(done.append, 2)), 10)
        await asyncio.wait_for(jobs.run(lambda _: done.append(3)), 10)
        assert done == [2, 3]
        assert await jobs.close()

    asyncio.run(test())


@pytest.mark.parametrize("given_up", [False, True])
def test_a_run_counts_once_also_if_its_client_goes_at_its_very_end(tmp_path: Path, given_up: bool) -> None:
    path, begun, go = tmp_path / "audit.jsonl", threading.Event(), threading.Event()

    def work(_: int) -> Execution:
        begun.set()
        assert go.wait(10)
        return Execution()

    async def test() -> None:
        jobs = Jobs(1, audit=Audit(str(path)))
        running = asyncio.ensure_future(jobs.run(work, make_options()))
        await asyncio.to_thread(begun.wait)
        if given_up:
            running.cancel()
            await asyncio.sleep(0)
        go.set()
        await asyncio.wait([running])
        assert running.cancelled() == given_up
        assert await jobs.close()

    asyncio.run(test())
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_what_is_known_of_a_run_that_was_given_up(isolation: Any) -> None:
    cancel = os.eventfd(0)
    with pytest.raises(Cancelled) as caught:
        options = make_options(isolation=isolation)
        run_chosen(options, SLEEP, cancel=cancel, begun=lambda _: os.eventfd_write(cancel, 1))
    os.close(cancel)
    done = caught.value.done
    assert isinstance(done, Execution) and done.error is not None
    assert (done.error.type, done.exit_code, done.isolation) == ("Cancelled", 137, isolation)


def test_a_call_can_be_cancelled_before_its_container_is_there() -> None:
    cancel = os.eventfd(1)
    began = time.monotonic()
    for _ in range(8):
        with pytest.raises(Cancelled):
            run_chosen(make_options(), SLEEP, cancel=cancel)
    os.close(cancel)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(("slow", "answered"), [("receive", [408]), ("send", [])])
def test_slow_clients_do_not_keep_a_place(slow: str, answered: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, f"{'BODY' if slow == 'receive' else 'SEND'}_SEC", 0.05)
    statuses: list[int] = []

    async def receive() -> admission.Message:
        await asyncio.sleep(60 if slow == "receive" else 0)
        return {"type": "http.request", "body": b""}

    async def send(message: admission.Message) -> None:
        await asyncio.sleep(60 if slow == "send" else 0)
        statuses.extend([message["status"]] if "status" in message else [])

    async def application(scope: admission.Scope, receive: admission.Receive, send: admission.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def twice() -> None:
        door = admission.Admission(application, access.Access(), slots=1, size=10)
        for _ in range(2):
            await door({"type": "http", "path": "/", "method": "GET", "headers": []}, receive, send)

    asyncio.run(twice())
    assert statuses == answered * 2


def test_answers_for_keys_are_bounded_in_number_bytes_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEYS", 3)
    monkeypatch.setattr(idempotency, "MAX_BYTES", 100)
    served: list[str] = []
    sent: list[admission.Message] = []

    async def application(scope: admission.Scope, receive: admission.Receive, send: admission.Send) -> None:
        served.append(f"{admission.caller.get()}{(await receive())['body'].decode()}")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 40})

    def refused(problem: Problem) -> Response:
        return Response(problem.detail, problem.kind.status)

    async def send(message: admission.Message) -> None:
        sent.append(message)

    def ask(who: str, key: str, body: str = "") -> int:
        async def receive() -> admission.Message:
            return {"type": "http.request", "body": body.encode()}

        admission.caller.set(who)
        sent.clear()
        headers = [(b"idempotency-key", key.encode())]
        asyncio.run(door({"type": "http", "path": "/", "method": "POST", "headers": headers}, receive, send))
        return int(sent[0]["status"])

    door = idempotency.Idempotent(application, refused)
    # Each caller has keys of its own.
    assert [ask("a", "1"), ask("b", "1"), ask("a", "1"), ask("a", "1", "other")] == [200, 200, 200, 422]
    assert served == ["a", "b"]
    # The third answer of 40 bytes has no room. That of the caller with the most bytes is dropped, and not made again.
    assert [ask("a", "2"), ask("b", "1"), ask("a", "2"), ask("a", "1")] == [200, 200, 200, 409]
    assert served == ["a", "b", "a"]
    assert [ask("a", "3"), ask("a", "4"), ask("b", "4")] == [200, 429, 200]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + idempotency.KEPT_SEC + 1)
    served.clear()
    assert [ask("a", "1"), served] == [200, ["a"]]


def quickest(service: Server, path: str, body: bytes, status: int) -> tuple[float, httpx.Response]:
    """Send a request, and ask for the server's health meanwhile; return how much longer that takes, and the answer.

    Longer than when the server has nothing to do; and of several attempts the best: on a machine with other work,
    everything takes long now and then.
    """

    def ask(asking: httpx.Client) -> float:
        began = time.monotonic()
        asking.get("/health")
        return time.monotonic() - began

    best, headers = 60.0, {"Content-Type": "application/json"}
    if path == "/mcp":
        headers["Accept"] = "application/json, text/event-stream"
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool, service.connect() as asking:
            idle = max(ask(asking) for _ in range(50))
            answered = pool.submit(service.client.post, path, content=body, headers=headers)
            longest = 0.0
            while not answered.done():
                longest = max(longest, ask(asking))
                time.sleep(0.005)
        assert answered.result().status_code == status, answered.result().text
        best = min(best, longest - idle)
        if best < 0.1:
            break
    return best, answered.result()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the usual options."""
    with server(listen=f"unix:{tmp_path_factory.mktemp('service')}/s") as found:
        yield found


MANY = {str(number): "" for number in range(300_000)}
AS_MANY_AS_MAY_BE = {str(number): "x" * 4000 for number in range(json_bounds.MAX_FILES)}


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (json.dumps({"code": "1", "files": MANY}), 413, "1000 files are the most"),
        ('{"code": "1", "argv": [' + "[]," * 2_000_000 + "[]]}", 413, "4000 parts"),
        (json.dumps({"code": "1", "files": {str(n): "" for n in range(1001)}}), 413, "1001 of them are more than 1000"),
        (json.dumps({"code": "1", "files": {str(n): n for n in range(1000)}}), 422, "files: '0': neither a string"),
        (json.dumps({"code": "1", "profile": "x" * 5_000_000}), 422, "is not there: this server offers none"),
        (json.dumps({"code": "import os; len(os.listdir())", "files": AS_MANY_AS_MAY_BE}), 200, '"value":"1000"'),
        (json.dumps({"code": "#" + '",[{ ' * 1_000_000}), 200, '"exit_code":0'),
        (json.dumps({"code": "for i in range(3000): open(f'/output/{i}', 'w')"}), 200, '"truncated":true'),
    ],
)
def test_a_request_of_many_parts_keeps_nothing_else_waiting(
    content: str, status: int, said: str, service: Server
) -> None:
    longest, answer = quickest(service, "/v1/run", content.encode(), status)
    assert longest < 0.1
    assert said in answer.text
    if status == 413:
        assert problem(answer)["limit"] in (json_bounds.MAX_PARTS, json_bounds.MAX_FILES)
    if status == 200:
        assert len(answer.json()["artifacts"]) <= json_bounds.MAX_FILES
    assert len(answer.content) < 200_000


def test_parts_are_counted_outside_strings() -> None:
    for content in (b'{"a": "' + b",[{" * 10_000 + b'"}', '{"a": "\\",[{"}'.encode("utf-16"), b"\xff" * 10_000):
        json_bounds.check_parts(content)
    for content in (
        b"[" + b"1," * 5000 + b"1]",
        b"[" * 5000,
        b'{"a":"' + b'\\" ' * 9 + b'","b":[' + b"{}," * 5000,
        b'""' * 9000,
    ):
        with pytest.raises(Problem, match="more than 4000 parts"):
            json_bounds.check_parts(content)
    with pytest.raises(Problem):
        json_bounds.check_parts(("[" + "1," * 5000 + "1]").encode("utf-16"))


def test_a_session_of_many_files_does_not_list_them(service: Server) -> None:
    place = start(service)
    code = f"for i in range({json_bounds.LISTED + 1}): open(f'{{i}}', 'w').close()"
    assert service.post(f"{place}/run", code=code).json()["exit_code"] == 0
    answer = service.client.get(f"{place}/files")
    assert (answer.status_code, problem(answer)["title"]) == (422, "the sandbox cannot do that")
    assert f"{json_bounds.LISTED + 1} files, and {json_bounds.LISTED} are listed" in problem(answer)["detail"]


def test_sets_of_limits_are_not_made_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "MAX_VARIETY", 3)
    given = choices.Choices(make_options(memory_mb=1000), (), (), 8)
    for size in (100, 200, 300):
        assert given.options(limits={"memory_mb": size}).memory_mb == size
    with pytest.raises(Problem, match="3 different sets"):
        given.options(limits={"memory_mb": 400})
    assert given.options(limits={"memory_mb": 200, "output_limit": 7}).output_limit == 7


def test_packages_that_are_there_may_be_named() -> None:
    """Models name what the server and the profile have anyway."""
    given = choices.Choices(make_options(dependencies=["NumPy<3"]), ("data-science",), ("six",), 8)
    assert given.options(packages=["numpy", "Numpy"]).dependencies == ("numpy<3",)
    assert given.options(packages=["numpy", "six"]).dependencies == ("numpy<3", "six")
    own = given.options("data-science").dependencies
    assert "pandas" in own
    assert {*given.options("data-science", ["pandas", "six"]).dependencies} == {*own, "six"}
    with pytest.raises(Problem, match=r"'pandas' is not one of: six \(what the Python has itself needs no entry\)"):
        given.options(packages=["pandas"])
    with pytest.raises(Problem, match="'' is not one of: six"):
        given.options(packages=[""])


def test_a_profile_does_not_widen_what_the_server_has() -> None:
    base = make_options(memory_mb=300, allow_network=["example.org"], env={"A": "b"}, profile="minimal")
    given = choices.Choices(base, ("data-science",), (), 8)
    made = given.options("data-science")
    assert (made.memory_mb, str(made.allow_network), made.env, made.answer_limit) == (
        300,
        "example.org",
        (("A", "b"),),
        16 << 20,
    )
    with pytest.raises(Problem, match="none"):
        choices.Choices(base, (), (), 8).options("minimal")
