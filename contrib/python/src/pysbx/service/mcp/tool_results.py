"""How a run went, as a model reads it best: a text, images, short files; and the same as structured data."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

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

from pysbx.calls.execution import Execution, unsaid
from pysbx.container.output import Output
from pysbx.service.connections.problems import clean
from pysbx.service.http.report import Ended, ended, within_bounds

# By their first bytes; the code chose the names.
IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
# Bounds of the images and files that a model sees; of the rest it sees the names.
MAX_NAMED = 10
MAX_SHOWN, MAX_IMAGE, MAX_TEXT = 8, 4 * 1024 * 1024, 20_000
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


def structured(result: RunResult) -> dict[str, Any]:
    """Return the structured data of a result: of a long string its beginning and its end."""

    def short(part: Any) -> Any:
        if isinstance(part, str):
            kept = Output(MAX_STRUCTURED)
            kept.add(part.encode())
            return kept.text()
        if isinstance(part, dict):
            return {name: short(one) for name, one in part.items()}
        return [short(one) for one in part] if isinstance(part, list) else part

    return dict(short(result.model_dump(mode="json")))


def text_of(result: RunResult, error_text: str) -> str:
    """Return how a run went as a model reads it best: output first, then what went wrong and what to try.

    Args:
        result: how it went.
        error_text: the text of its error, if that is not in its output.
    """
    error = result.error
    parts = [result.stdout, result.stderr and f"[stderr]\n{result.stderr}"]
    if result.value is not None:
        parts.append(result.value)
    if error is not None:
        parts.append(error_text)
        parts.append(f"Hint: {error.hint}" if error.hint else "")
    elif result.exit_code:
        parts.append(f"[exit code {result.exit_code}]")
    if result.left_out:
        named = ", ".join(result.left_out[:MAX_NAMED])
        more = "" if len(result.left_out) <= MAX_NAMED else f" and {len(result.left_out) - MAX_NAMED} more"
        parts.append(f"[files were left out, write smaller ones: {named}{more}]")
    elif result.truncated:
        parts.append("[output was left out: print less]")
    if result.files:
        named = ", ".join(f"{file.name} ({file.size} bytes)" for file in result.files)
        parts.append(f"[files: {named}]")
    if result.session_ended:
        parts.append(f"[the session has ended: {result.session_ended}; start another]")
    return "\n".join(part.rstrip("\n") for part in parts if part) or "[no output]"


def image_of(data: bytes) -> ImageContent | None:
    """Return an image, if it is one that a client can show."""
    kind = next((kind for start, kind in IMAGES if data.startswith(start)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None or len(data) > MAX_IMAGE:
        return None
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=kind)


def displayed_image(bundle: Mapping[str, str]) -> ImageContent | None:
    """Return the image of an object that the code has displayed, if it has one that a client can show."""
    for kind in ("image/png", "image/jpeg"):
        with contextlib.suppress(ValueError):  # no base64
            if kind in bundle:
                return image_of(base64.b64decode(bundle[kind], validate=True))
    return None


def result_of(done: Execution, session_ended: str = "") -> CallToolResult:
    """Return the result of a tool that has run code.

    An exception or timeout of the code is not a failure of the tool: frameworks end an agent after a few of these.
    """
    done = within_bounds(done)
    result = run_result_of(done, session_ended)
    shown: list[ContentBlock] = []
    for name, data in done.artifacts.items():
        block = image_of(data) or text_file_of(name, data)
        if block is not None and len(shown) < MAX_SHOWN:
            shown.append(block)
    for bundle in done.displays:
        image = displayed_image(bundle)
        if image is not None and len(shown) < MAX_SHOWN:
            shown.append(image)
    return CallToolResult(
        content=[TextContent(type="text", text=text_of(result, clean(unsaid(done)))), *shown],
        structured_content=structured(result),
    )


def _uri(name: str) -> str:
    return "sandbox:///" + quote(clean(name).lstrip("/"))


def text_file_of(name: str, data: bytes) -> EmbeddedResource | None:
    """Return a file for a model to read, if it is a short text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) > MAX_TEXT or "\0" in text:
        return None
    contents = TextResourceContents(uri=_uri(name), mime_type="text/plain", text=text)
    return EmbeddedResource(type="resource", resource=contents)


def file_of(name: str, data: bytes) -> ContentBlock:
    """Return a file: as an image or as text if it is one, otherwise as base64."""
    shown = image_of(data) or text_file_of(name, data)
    if shown is not None:
        return shown
    blob = base64.b64encode(data).decode()
    contents = BlobResourceContents(uri=_uri(name), mime_type="application/octet-stream", blob=blob)
    return EmbeddedResource(type="resource", resource=contents)
