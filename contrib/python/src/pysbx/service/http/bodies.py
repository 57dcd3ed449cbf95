"""The parts that bodies of requests and answers have in common."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData

from pysbx.calls.execution import Execution
from pysbx.service.connections.problems import REQUEST, Problem
from pysbx.service.http.report import report_of

# Of a route whose answer has no content.
NO_CONTENT: dict[str, Any] = {"status_code": 204, "response_model": None, "response_class": Response}
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class Strict(BaseModel):
    """An object of a request: it has no other members, and no numbers as strings."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Binary(Strict):
    """The content of a file that is not text."""

    base64: str = Field(json_schema_extra={"pattern": BASE64, "contentEncoding": "base64"})


def content_of(content: str | Binary) -> bytes:
    """Return the content of a file as bytes."""
    return content.encode() if isinstance(content, str) else base64.b64decode(content.base64, validate=True)


@asynccontextmanager
async def form_of(request: Request, *, max_files: int, max_fields: int) -> AsyncIterator[FormData]:
    """Read the form of a request. Its names are UTF-8: RFC 7578 knows no other charset, and some decode to no text.

    Raises:
        Problem: it names another charset.
    """
    charset = parse_options_header(request.headers.get("content-type"))[1].get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() != "utf-8":
        raise Problem(REQUEST, f"the form has the charset '{charset:.100}', and names in forms are UTF-8")
    async with request.form(max_files=max_files, max_fields=max_fields) as form:
        yield form


def reported(done: Execution, session_ended: str = "") -> Response:
    """Return the answer to a request for a run; it takes longer the more files there are."""
    return Response(report_of(done, session_ended).model_dump_json(), media_type="application/json")
