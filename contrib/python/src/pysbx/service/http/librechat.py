"""The Code Interpreter API of LibreChat: a chat sends files and programs, and gets the files that these write.

Each program has a fresh sandbox. The server keeps the files of chats in its memory; LibreChat uploads again what is not
there any more. A session is the name of an upload or of a run. See service/src/service/router.ts of
https://github.com/LibreChat-AI/code-interpreter. Older clients call storage_session_id of a file session_id.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict, defaultdict
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from pydantic import AliasChoices, BaseModel, Field
from starlette.datastructures import UploadFile

from pysbx.calls.execution import checked_files, run_chosen
from pysbx.service.connections.admission import caller
from pysbx.service.connections.disconnect import unless_gone
from pysbx.service.connections.json_bounds import MAX_ARGUMENTS, MAX_FILES
from pysbx.service.connections.problems import NO_FILE, REQUEST, Kind, Problem, clean, meant
from pysbx.service.http.agent_sandbox import content
from pysbx.service.http.bodies import form_of
from pysbx.service.http.report import report_of, within_bounds
from pysbx.service.http.simple_api import with_traceback
from pysbx.service.sandboxes.choices import Choices
from pysbx.service.sandboxes.jobs import Jobs

LANGUAGE = Kind("language", 400, "this language is not served", "send py, or bash")
BASH = "import subprocess, sys\nsys.exit(subprocess.call(['bash', '-c', *sys.argv[1:]]))"
# Files that programs leave for themselves.
OWN = re.compile(r"(^|/)(\.|__pycache__/)")
# Of the files of a caller: bytes together, and those that each counts besides its content and its name.
MOST_BYTES, EACH = 128 << 20, 4096


class Ref(BaseModel):
    """A file of a chat."""

    id: str
    name: str
    session: str = Field(validation_alias=AliasChoices("storage_session_id", "session_id"))


class ChatProgram(BaseModel):
    """A program, and the files of its chat. Members that are unknown here are left to newer versions."""

    lang: str
    code: str
    args: list[str] = Field([], max_length=MAX_ARGUMENTS)
    files: list[Ref] = Field([], max_length=MAX_FILES)


class Kept(NamedTuple):
    """A file that is kept. A file that was uploaded as read-only is never an output."""

    name: str
    content: bytes
    is_fixed: bool
    made: float

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, at most: a character of its name has up to four."""
        return len(self.content) + 4 * len(self.name) + EACH

    def about(self, session: str, identifier: str) -> dict[str, Any]:
        """Return what LibreChat wants to know of it."""
        return {
            "id": identifier,
            "name": f"{session}/{identifier}{PurePosixPath(self.name).suffix}",
            "originalFilename": self.name,
            "metadata": {"original-filename": self.name},
            "size": len(self.content),
            "lastModified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.made)),
        }


class Store:
    """The files of a caller by session and identifier, the oldest first."""

    def __init__(self) -> None:
        """Begin without files."""
        self.files: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._size = 0

    def add(self, session: str, name: str, content: bytes, *, is_fixed: bool = False) -> str:
        """Keep a file, instead of the oldest ones if there is no room; return its identifier."""
        identifier = new_id()
        made = self.files[session, identifier] = Kept(name, content, is_fixed, time.time())
        self._size += made.size
        while self._size > MOST_BYTES:
            self.remove(*next(iter(self.files)))
        return identifier

    def find(self, session: str, identifier: str) -> Kept:
        """Return a file, or raise the problem that there is none."""
        if (kept := self.files.get((session, identifier))) is None:
            raise Problem(NO_FILE, "it has never been, or was removed since")
        return kept

    def remove(self, session: str, identifier: str) -> None:
        """Remove a file; see find."""
        self._size -= self.find(session, identifier).size
        del self.files[session, identifier]


def new_id() -> str:
    """Return an identifier of the form that LibreChat takes: 21 characters."""
    return secrets.token_urlsafe(16)[:21]


def add_librechat(app: FastAPI, offer: Choices, jobs: Jobs) -> None:
    """Add the routes to an application."""
    stores = defaultdict[str, Store](Store)

    @app.post("/v1/exec", name="librechat_exec")
    async def execute(request: Request, program: ChatProgram) -> dict[str, Any]:
        """Run a program of a chat in a fresh sandbox with the files that it names."""
        if program.lang not in ("py", "bash"):
            raise Problem(LANGUAGE, f"'{program.lang:.100}'", more={"error": "unsupported language"})
        store, session = stores[caller.get()], new_id()
        given = {one.name: store.find(one.session, one.id) for one in program.files}
        options = replace(await jobs.aside(offer.options), collect=("*",))
        shell = program.lang == "bash"
        source, argv = (BASH, [program.code, "bash", *program.args]) if shell else (program.code, program.args)
        with meant():
            files = checked_files({name: kept.content for name, kept in given.items()})
        work = lambda cancel: run_chosen(options, source, files=files, argv=argv, cancel=cancel)  # noqa: E731 (it is one)
        if (done := await unless_gone(request, jobs.run(work, options, code=program.code))) is None:
            return {}
        report = await jobs.aside(lambda: with_traceback(report_of(replace(done, artifacts={}))))
        said = [report.stderr or (report.error.message if report.error is not None else "")]
        said += [f"too large, or cannot be read: {name}" for name in report.left_out]
        refs = [
            {"id": store.add(session, name, one), "name": name, "session_id": session, "storage_session_id": session}
            for name, one in ((clean(name), one) for name, one in within_bounds(done).artifacts.items())
            if not (name in given and given[name].is_fixed) and OWN.search(name) is None
        ]
        return {"session_id": session, "stdout": report.stdout, "stderr": "\n".join(filter(None, said)), "files": refs}

    @app.post("/v1/upload", name="librechat_upload")
    @app.post("/v1/upload/batch", name="librechat_upload_batch")
    async def upload(request: Request) -> dict[str, Any]:
        """Keep the files of a form."""
        async with form_of(request, max_files=MAX_FILES, max_fields=20) as form:
            parts = [one for _, one in form.multi_items() if isinstance(one, UploadFile)]
            with meant():
                contents = checked_files({(one.filename or "").strip("/"): await one.read() for one in parts})
            is_fixed = form.get("read_only") == "true"
        if not contents:
            raise Problem(REQUEST, "the form has no file")
        session, add = new_id(), stores[caller.get()].add
        listed = [
            {"status": "success", "fileId": add(session, name, one, is_fixed=is_fixed), "filename": name}
            for name, one in contents.items()
        ]
        names = {"session_id": session, "storage_session_id": session, "succeeded": len(listed), "failed": 0}
        return {"message": "success", "files": listed, **names}

    @app.get("/v1/files/{session}", name="librechat_files")
    async def listing(session: str) -> list[dict[str, Any]]:
        """List the files of an upload or a run."""
        return [one.about(*key) for key, one in stores[caller.get()].files.items() if key[0] == session]

    @app.get("/v1/sessions/{session}/objects/{file}", name="librechat_object")
    async def about(session: str, file: str) -> dict[str, Any]:
        """Say what a file is."""
        return stores[caller.get()].find(session, file).about(session, file)

    @app.get("/v1/download/{session}/{file}", name="librechat_download", response_class=Response)
    async def download(session: str, file: str) -> Response:
        """Read a file."""
        kept = stores[caller.get()].find(session, file)
        found = content(kept.content)
        found.headers["Content-Disposition"] += f"; filename*=UTF-8''{quote(PurePosixPath(kept.name).name)}"
        return found

    @app.delete("/v1/files/{session}/{file}", name="librechat_delete")
    async def delete(session: str, file: str) -> dict[str, str]:
        """Remove a file."""
        stores[caller.get()].remove(session, file)
        return {"message": "removed", "session_id": session, "fileId": file}
