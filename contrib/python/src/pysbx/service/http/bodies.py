"""The parts that bodies of requests and answers have in common."""

from __future__ import annotations

import base64
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from pysbx.calls.execution import Execution
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


def reported(done: Execution, session_ended: str = "") -> Response:
    """Return the answer to a request for a run; it takes longer the more files there are."""
    return Response(report_of(done, session_ended).model_dump_json(), media_type="application/json")
