"""`pysbx serve --compatible dify,librechat`: the requests of the clients of both, as their sources make them."""

# once: a server says the same to its clients as root

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pysbx.service.http import librechat
from tests.servers import TOKEN, Server, server

OTHER = "another-token-for-tests"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server at a TCP port with two callers, whose tokens come as these clients send them."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "tokens").write_text(f"{TOKEN}\n{OTHER}\n")
    options = ("--compatible", "dify,librechat", "--token-file", str(folder / "tokens"), "--output-limit", "100000")
    audit = ("--audit-log", str(folder / "audit"), "--timeout", "2")
    with server(*options, *audit, listen="127.0.0.1:0", token=TOKEN) as found:
        found.client.headers = httpx.Headers({"X-Api-Key": TOKEN})
        yield found
    noted = (folder / "audit").read_text()
    assert "run" in {json.loads(line)["event"] for line in noted.splitlines()}
    logged = "".join(found.log)
    assert re.search(r" GET /v1/download/[\w-]{6}…/[\w-]{21} 200 ", logged)
    assert not re.search(r"/v1/\w+/[\w-]{21}", logged + noted)


def test_a_wrong_key_is_refused(service: Server) -> None:
    for path in ("/v1/sandbox/run", "/v1/exec", "/v1/upload"):
        assert service.client.post(path, json={}, headers={"X-Api-Key": "dify-sandbox"}).status_code == 401


# -- Dify: api/core/helper/code_executor/code_executor.py, and the program of its template for Python


def dify(service: Server, code: str, language: str = "python3") -> dict[str, Any]:
    """Send what Dify sends for a code node; the answer has the members that its model demands."""
    answer = service.post("/v1/sandbox/run", language=language, code=code, preload="", enable_network=True)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert isinstance(found["code"], int)
    assert isinstance(found["message"], str)
    return found


def test_a_code_node_gets_its_result(service: Server) -> None:
    inputs = base64.b64encode(json.dumps({"numbers": [1, 2]}).encode()).decode()
    program = f"""
import warnings
def main(numbers):
    warnings.warn("of no interest")
    return {{"result": sum(numbers)}}
import json
from base64 import b64decode
output = main(**json.loads(b64decode('{inputs}').decode('utf-8')))
print('<<RESULT>>' + json.dumps(output, indent=4) + '<<RESULT>>')
"""
    found = dify(service, program)
    assert (found["code"], found["message"], found["data"]["error"]) == (0, "success", "")
    assert "of no interest" in found["data"]["stderr"]
    result = re.search("<<RESULT>>(.*)<<RESULT>>", found["data"]["stdout"], re.DOTALL)
    assert result is not None and json.loads(result[1]) == {"result": 3}


def test_code_comes_after_its_preload(service: Server) -> None:
    answer = service.post("/v1/sandbox/run", language="python3", code="print(x)", preload="x = 42")
    assert answer.json()["data"]["stdout"] == "42\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", "exit code 3\nwhy"),
        ("import time\nwhile True: time.sleep(9)", "2 seconds"),
        ("print('x' * 200000)", "--output-limit"),
    ],
)
def test_a_failed_program_fails_its_node(service: Server, code: str, said: str) -> None:
    found = dify(service, code)
    assert found["code"] == 0
    assert said in found["data"]["error"]


def test_another_language_is_an_answer_that_dify_shows(service: Server) -> None:
    found = dify(service, "console.log(1)", "nodejs")
    assert (found["code"], found["data"]) == (-422, None)
    assert "unsupported language 'nodejs'" in found["message"]
    listed = service.client.get("/v1/sandbox/dependencies", params={"language": "python3"}).json()
    assert listed == {"code": 0, "message": "success", "data": {"dependencies": []}}
    assert service.client.get("/v1/sandbox/dependencies", params={"language": "nodejs"}).json()["code"] == -422


# -- LibreChat: api/server/services/Files/Code, and CodeExecutor.ts and BashExecutor.ts of @librechat/agents


def execute(service: Server, code: str, *files: dict[str, Any], lang: str = "py", **more: Any) -> dict[str, Any]:
    """Send what the tools execute_code and bash_tool send."""
    answer = service.post("/v1/exec", lang=lang, code=code, files=list(files), user_id="1", **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert {"session_id", "stdout", "stderr"} <= found.keys()
    return found


def upload(service: Server, path: str = "/v1/upload", read_only: str = "", **files: str) -> dict[str, dict[str, str]]:
    """Send files as the upload of an attachment does; return references to them by name."""
    content = [("file", (name.replace("__", "/").replace("_", "."), text)) for name, text in files.items()]
    form = {"kind": "user", "id": "1", **({"read_only": read_only} if read_only else {})}
    answer = service.client.post(path, data=form, files=content)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made["message"] == "success"
    session = made["storage_session_id"]
    return {
        one["filename"]: {"id": one["fileId"], "storage_session_id": session, "name": one["filename"], "kind": "user"}
        for one in made["files"]
    }


def test_a_file_of_one_run_is_there_in_the_next(service: Server) -> None:
    first = execute(service, "import os\nopen('/mnt/data/a.json', 'w').write('[1]'); print(os.listdir('/mnt/data'))")
    assert (first["stdout"], first["stderr"]) == ("['a.json']\n", "")
    (file,) = first["files"]
    assert [re.fullmatch("[A-Za-z0-9_-]{21}", file[one]) is not None for one in ("id", "storage_session_id")] == [
        True
    ] * 2
    second = execute(service, "print(open('a.json').read())", file)
    assert (second["stdout"], second["files"]) == ("[1]\n", [])
    old = {name: file[name] for name in ("id", "name", "session_id")}  # as clients before version 3 of the tools
    third = execute(service, "open('/mnt/data/a.json', 'a').write('+'); open('.cache', 'w')", old)
    assert [one["name"] for one in third["files"]] == ["a.json"]
    assert third["files"][0]["id"] != file["id"]


def test_uploads_are_looked_at_read_and_removed(service: Server) -> None:
    files = upload(service, a_csv="1,2", sub__b_txt="b")
    assert files.keys() == {"a.csv", "sub/b.txt"}
    code = "import sys; print(open('/mnt/data/a.csv').read(), open('sub/b.txt').read(), sys.argv[1])"
    assert execute(service, code, *files.values(), args=["x"])["stdout"] == "1,2 b x\n"
    session, file = files["a.csv"]["storage_session_id"], files["a.csv"]["id"]
    query = {"kind": "user", "id": "1"}
    (first, _) = service.client.get(f"/v1/files/{session}", params={"detail": "summary"}).json()
    # fetchSessionFiles of the library takes the name from the metadata.
    assert (first["name"], first["metadata"]["original-filename"]) == (f"{session}/{file}.csv", "a.csv")
    about = service.client.get(f"/v1/sessions/{session}/objects/{file}", params=query).json()
    assert (about["originalFilename"], about["lastModified"]) == ("a.csv", first["lastModified"])
    got = service.client.get(f"/v1/download/{session}/{file}", params=query)
    assert (got.content, got.headers["content-disposition"]) == (b"1,2", "attachment; filename*=UTF-8''a.csv")
    assert service.client.delete(f"/v1/files/{session}/{file}", params=query).status_code == 200
    for path in (f"/v1/download/{session}/{file}", f"/v1/sessions/{session}/objects/{file}"):
        assert service.client.get(path).status_code == 404
    assert service.client.delete(f"/v1/files/{session}/{file}").status_code == 404
    assert service.post("/v1/exec", lang="py", code="", files=[files["a.csv"]]).status_code == 404


def test_files_of_a_skill_are_no_outputs(service: Server) -> None:
    files = upload(service, "/v1/upload/batch", "true", skill__run_py="print(1)", skill__more_py="")
    done = execute(
        service, "python3 skill/run.py; echo 2 >>skill/run.py; echo $1 >new", *files.values(), lang="bash", args=["x"]
    )
    assert (done["stdout"], [one["name"] for one in done["files"]]) == ("1\n", ["new"])


def test_a_failed_run_is_an_answer(service: Server) -> None:
    assert "ZeroDivisionError" in execute(service, "1 / 0")["stderr"]
    assert "2 seconds" in execute(service, "import time; time.sleep(60)")["stderr"]
    assert execute(service, "ls none", lang="bash")["stderr"].startswith("ls: ")
    large = execute(service, "open('large', 'wb').write(bytes(9 << 20)); open('small', 'w').write('x')")
    assert ([one["name"] for one in large["files"]], "large" in large["stderr"]) == (["small"], True)
    for lang in ("js", "rs", "python3; ls"):
        answer = service.post("/v1/exec", lang=lang, code="1")
        assert (answer.status_code, answer.json()["error"]) == (400, "unsupported language")


def test_an_upload_without_content_is_a_file(service: Server) -> None:
    files = upload(service, x__="")
    assert execute(service, "import os; print(os.path.isfile('x'))", *files.values())["stdout"] == "True\n"
    assert [*files] == ["x"]


def test_wrong_uploads(service: Server) -> None:
    for name in ("../a", "a/../../b", ""):
        answer = service.client.post("/v1/upload", files=[("file", (name, b"x"))])
        assert answer.status_code == 422, name
    assert service.client.post("/v1/upload", data={"kind": "user"}, files=[]).status_code == 422
    # Names that are no text, and a codec that decodes nothing.
    for charset, name in (("utf-7", "+2AA-"), ("unicode_escape", r"\ud800"), ("undefined", "a"), ("UTF-8", "a")):
        form = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n1\r\n--x--\r\n'
        header = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
        answer = service.client.post("/v1/upload", content=form.encode(), headers=header)
        assert answer.status_code == (200 if charset == "UTF-8" else 422), charset


def test_files_belong_to_their_caller(service: Server) -> None:
    (file,) = upload(service, a_csv="1,2").values()
    key = {"X-Api-Key": OTHER}
    place = f"{file['storage_session_id']}/{file['id']}"
    assert service.client.get(f"/v1/download/{place}", headers=key).status_code == 404
    assert service.client.get(f"/v1/files/{file['storage_session_id']}", headers=key).json() == []
    assert service.client.delete(f"/v1/files/{place}", headers=key).status_code == 404
    asked = service.client.post("/v1/exec", json={"lang": "py", "code": "", "files": [file]}, headers=key)
    assert asked.status_code == 404
    assert service.client.get(f"/v1/download/{place}").content == b"1,2"


def test_the_oldest_files_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librechat, "MOST_BYTES", 3 * (librechat.EACH + 14))  # a character of a name counts as four
    store = librechat.Store()
    identifiers = [store.add("s", str(number), bytes(10)) for number in range(5)]
    assert [kept.name for kept in store.files.values()] == ["2", "3", "4"]
    store.remove("s", identifiers[3])
    store.add("s", "5", bytes(10))
    assert [kept.name for kept in store.files.values()] == ["2", "4", "5"]
    store.add("s", "n" * (librechat.EACH // 4), b"")
    assert [len(kept.name) for kept in store.files.values()] == [1, librechat.EACH // 4]
    store.add("s", "too large", bytes(librechat.MOST_BYTES))
    assert not store.files


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--compatible", "dify,piston"), "'piston' is not one of"),
        (("--compatible", "librechat", "--agent-sandbox"), "start two servers"),
    ],
)
def test_what_cannot_be_served(options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from pysbx.command import main

    assert main(["serve", *options]) != 0
    assert said in capsys.readouterr().err
