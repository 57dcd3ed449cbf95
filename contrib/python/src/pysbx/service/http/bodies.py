"""The parts that bodies of requests and answers have in common."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData

from pysbx.calls.execution import Execution
from pysbx.service.connections.problems import REQUEST, Problem
from pysbx.service.http.report import report_of

# Of a route whose answer has no content.
NO_CONTENT: dict[str, Any] = {"status_code": 204, "response_model": None, "response_class": Response}
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class Strict(BaseModel):
    """An object of a request: it has no other members, and no numbers as strings.

    An optional member may also be null: many clients write null for what they do not set.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _left_out(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        needless = cls._needless()
        return {name: value for name, value in given.items() if value is not None or name not in needless}

    @classmethod
    def _needless(cls) -> set[str]:
        return {field.alias or name for name, field in cls.model_fields.items() if not field.is_required()}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema, in which such members are of their own type or null."""
        made = handler.resolve_ref_schema(handler(schema))
        for name in cls._needless():
            member = made["properties"][name]
            about = {key: member.pop(key) for key in ("title", "description", "default") if key in member}
            forms = member.get("anyOf", [dict(member)] if member else [])
            if forms and {"type": "null"} not in forms:
                member.clear()
                member["anyOf"] = [*forms, {"type": "null"}]
            member.update(about)
        return made


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
