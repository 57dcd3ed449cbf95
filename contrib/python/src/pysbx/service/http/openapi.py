"""The parts of /openapi.json that FastAPI does not derive: problems, tokens, bodies that are not JSON."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Message, Receive, Scope, Send

Json = dict[str, Any]

BINARY: Json = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
# For PUT, whose body is read as it is. A request without one makes an empty file.
CONTENT_BODY: Json = {"requestBody": {"required": False, "content": BINARY, "description": "the content of the file"}}
CONTENT: dict[int | str, Json] = {200: {"description": "the content of the file", "content": BINARY}}
EVENTS: dict[int | str, Json] = {
    200: {
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "string",
                    "description": "events installing, installed, stdout, stderr and tool_call, then result or problem",
                }
            }
        }
    }
}
METRICS: dict[int | str, Json] = {
    200: {"description": "numbers", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
PROBLEM: dict[int | str, Json] = {
    "default": {
        "description": "what failed, why, what to do",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}

# Of each POST: see idempotency.py.
KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the same request with the same key gets the first answer for a minute, and runs once",
    "schema": {"type": "string", "pattern": '^"?[!#-~]{1,255}"?$'},
}


class Problem(BaseModel):
    """The failure, its reason and the remedy: see RFC 9457."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="urn:pysbx:problem:NAME")
    title: str
    status: int
    detail: str
    remedy: str
    code: str = Field("", description="of a file: the kind of its error, such as file_not_found")


def _bound(members: Json, most: Mapping[str, float]) -> None:
    """Add the greatest values to the members of a request that are limits."""
    for name in members.keys() & most:
        for form in members[name].get("anyOf", ()):
            if form["type"] != "null":
                form["maximum"] = most[name]


class Described(FastAPI):
    """An application that adds these parts to its description, and answers HEAD where it answers GET.

    Attributes:
        most: the most that a caller gets, by name of the member of a request.
    """

    most: Mapping[str, float] = MappingProxyType({})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. One with HEAD is answered like GET; the content is left out."""

        async def send_head(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        if scope["type"] == "http" and scope["method"] == "HEAD":
            # The server in front keeps its own scope, in which the method is still HEAD.
            inner = {**scope, "method": "GET"}
            try:
                await super().__call__(inner, receive, send_head)
            finally:
                scope["route"] = inner.get("route")  # for metrics, spans and the audit log
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> Json:
        """Return the description."""
        if self.openapi_schema is None:
            parts = super().openapi()["components"]
            parts["schemas"]["Problem"] = Problem.model_json_schema()
            for schema in parts["schemas"].values():
                members = schema.get("properties", {})
                _bound(members, self.most)
                # Of requests, and of Problem. openapi-typescript takes a member with a default for one that is there.
                if "additionalProperties" in schema:
                    for member in members.values():
                        member.pop("default", None)
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            assert self.openapi_schema is not None
            for methods in self.openapi_schema["paths"].values():
                if "post" in methods:
                    methods["post"].setdefault("parameters", []).append(KEY)
                    # A body that may be left out is not null: a client of openapi-python-client would have to send one.
                    for body in methods["post"].get("requestBody", {"content": {}})["content"].values():
                        body["schema"] = body["schema"].get("anyOf", [body["schema"]])[0]
            # Either of the two: at a Unix socket a caller needs no token.
            self.openapi_schema["security"] = [{"token": []}, {}]
        return self.openapi_schema
