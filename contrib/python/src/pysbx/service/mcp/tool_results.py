"""How a run went, as a model reads it best: a text, images, short files; and the same as structured data."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, ConfigDict

from pysbx.calls.execution import Execution
from pysbx.container.output import Output
from pysbx.service.connections.problems import clean
from pysbx.service.http.report import Ended, ended, within_bounds
from pysbx.service.mcp.kept_files import BINARY, Link, uri_of

# By their first bytes; the code chose the names.
IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
# Bounds of the images and files that a model sees; of the rest it sees the names.
MAX_SHOWN, MAX_TEXT, MAX_LINKS = 8, 20_000, 100
# Bytes of JSON. Clients refuse a result of more than 1 MiB, and some of them even smaller ones.
MAX_RESULT, MAX_WORDS, MAX_LIST = 1_000_000, 300_000, 100_000
# Bytes of a string of the structured data. Some clients hand both forms on to the model.
MAX_STRUCTURED = 8_000


class File(BaseModel):
    """A file that the code has left in /output."""

    name: str
    size: int


class RunResult(Ended):
    """How a run went, for a model: files by name. The text of the result has long output whole."""

    # The name that clients know from the schema.
    model_config = ConfigDict(title="Outcome")

    files: list[File]
    wall_sec: float


def run_result_of(done: Execution, session_ended: str = "") -> RunResult:
    """Return the structured part of the result of a tool."""
    return RunResult(
        **ended(done, session_ended),
        files=[File(name=clean(name), size=len(data)) for name, data in done.artifacts.items()],
        wall_sec=round(done.usage.wall_sec, 3),
    )


def size_of(part: Any) -> int:
    """Return the bytes of a part of a result as JSON."""
    found = part.model_dump_json() if isinstance(part, BaseModel) else json.dumps(part, ensure_ascii=False)
    return len(found.encode())


def cut(text: str, most: int) -> str:
    """Return the beginning and the end of a string that has more than so many bytes."""
    kept = Output(most)
    kept.add(text.encode())
    return kept.text()


def fitting(text: str, most: int = MAX_WORDS) -> str:
    """Return a string of which JSON has at most so many bytes, roughly."""
    size = size_of(text)
    return text if size <= most else cut(text, len(text.encode()) * most // size)


def first_of(items: list[Any], most: int = MAX_LIST) -> Iterator[Any]:
    """Yield those items of a list at its beginning of which JSON has at most so many bytes."""
    for item in items:
        most -= size_of(item)
        if most < 0:
            break
        yield item


def structured(result: RunResult) -> dict[str, Any]:
    """Return the structured data of a result: of a long string its beginning and its end."""

    def short(part: Any) -> Any:
        if isinstance(part, str):
            return cut(part, MAX_STRUCTURED)
        if isinstance(part, dict):
            return {name: short(one) for name, one in part.items()}
        return list(first_of([short(one) for one in part])) if isinstance(part, list) else part

    return dict(short(result.model_dump(mode="json")))


def image_of(data: bytes) -> ImageContent | None:
    """Return an image, if it is one that a client can show."""
    kind = next((kind for start, kind in IMAGES if data.startswith(start)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None or len(data) > MAX_RESULT:
        return None
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=kind)


def displayed_image(bundle: Mapping[str, str]) -> tuple[str, bytes] | None:
    """Return extension and content of the image of an object that the code has displayed, if it has one."""
    for kind in ("png", "jpeg"):
        with contextlib.suppress(ValueError):  # no base64
            if f"image/{kind}" in bundle:
                return kind, base64.b64decode(bundle[f"image/{kind}"], validate=True)
    return None


def result_of(done: Execution, link: Link, session_ended: str = "") -> CallToolResult:
    """Return the result of a tool that has run code.

    An exception or timeout of the code is not a failure of the tool: frameworks end an agent after a few of these.
    """
    done = within_bounds(done)
    result = run_result_of(done, session_ended)
    ending = f"[the session has ended: {session_ended}; start another]" if session_ended else ""
    said = [clean(done.to_text()), ending] if ending else [clean(done.to_text())]
    text = TextContent(type="text", text=fitting("\n".join(said)))
    answer = CallToolResult(content=[text], structured_content=structured(result))
    room, shown, links = MAX_RESULT - size_of(answer), 0, 0
    for name, data, form in _seen(done):
        if form is not None and shown < MAX_SHOWN and size_of(form) <= room:
            block, shown = form, shown + 1
        elif links < MAX_LINKS:
            block, links = link(name, data), links + 1
        else:
            continue
        room -= size_of(block)
        if room >= 0:
            answer.content.append(block)
    return answer


def _seen(done: Execution) -> Iterator[tuple[str, bytes, ContentBlock | None]]:
    """Yield name, content and, of what a client can show, the form of all files and displayed images."""
    for name, data in done.artifacts.items():
        yield name, data, image_of(data) or text_file_of(name, data)
    for number, bundle in enumerate(done.displays, 1):
        if (image := displayed_image(bundle)) is not None:
            yield f"display-{number}.{image[0]}", image[1], image_of(image[1])


def text_file_of(name: str, data: bytes, most: int = MAX_TEXT) -> EmbeddedResource | None:
    """Return a file for a model to read, if it is a text of at most so many bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) > most or "\0" in text:
        return None
    contents = TextResourceContents(uri=uri_of(name), mime_type="text/plain", text=text)
    return EmbeddedResource(type="resource", resource=contents)


def file_of(name: str, data: bytes, link: Link) -> ContentBlock:
    """Return a file: as an image or as text if it is one, otherwise as base64, and as a link if it is too large."""
    block: ContentBlock | None = image_of(data) or text_file_of(name, data, MAX_RESULT)
    if block is None and len(data) <= MAX_RESULT:
        blob = base64.b64encode(data).decode()
        block = EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri=uri_of(name), mime_type=BINARY, blob=blob)
        )
    return block if block is not None and size_of(block) <= MAX_RESULT else link(name, data)
