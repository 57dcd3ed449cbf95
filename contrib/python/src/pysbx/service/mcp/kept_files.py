"""Files that are too large for the result of a tool, or no text and no image: a client reads them as resources.

A result has a link to each (specification of 2025-06-18, server/tools, "Resource Links"). The files are in memory, as
many of each caller as fit into a bound: the newest. The code chooses their names and number, so these count too.
"""

from __future__ import annotations

import mimetypes
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

from mcp.server.mcpserver import Context
from mcp_types import Resource, ResourceLink, TextContent

from pysbx.service.connections.admission import caller
from pysbx.service.connections.problems import clean

# Earlier clients refuse a result with a link, but not its text, and read resources too.
WITH_LINKS = "2025-06-18"
LISTED = 100
BINARY = "application/octet-stream"
# Bytes that a file takes beside its content and its name.
EACH = 4096

Link = Callable[[str, bytes], ResourceLink | TextContent]


@dataclass(frozen=True)
class File:
    """A file that is kept."""

    about: Resource
    data: bytes

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, at most: a character of its name has four, one of its address has one."""
        return len(self.data) + len(self.about.uri) + 4 * len(self.about.name) + EACH


def uri_of(name: str, owner: str = "") -> str:
    """Return the address of a file."""
    return f"sandbox://{owner}/" + quote(clean(name).lstrip("/"))


class KeptFiles:
    """The files of all callers."""

    def __init__(self, most: int) -> None:
        """Keep at most so many bytes of each caller."""
        self._most = most
        self._files: dict[str, OrderedDict[str, File]] = {}
        self._sizes = Counter[str]()  # of the files of a caller
        self._lock = threading.Lock()  # results are made outside of the event loop

    def _keep(self, who: str, name: str, data: bytes) -> Resource:
        kind = mimetypes.guess_type(name)[0] or BINARY
        about = Resource(uri=uri_of(name, secrets.token_hex(8)), name=clean(name), mime_type=kind, size=len(data))
        with self._lock:
            files = self._files.setdefault(who, OrderedDict())
            made = files[about.uri] = File(about, data)
            self._sizes[who] += made.size
            while len(files) > 1 and self._sizes[who] > self._most:
                self._sizes[who] -= files.popitem(last=False)[1].size
        return about

    def linking(self, context: Context[Any, Any]) -> Link:
        """Return a function that keeps a file of the caller, and returns a link to it that the client knows."""
        who, knows = caller.get(), context.request_context.protocol_version >= WITH_LINKS

        def link(name: str, data: bytes) -> ResourceLink | TextContent:
            about = self._keep(who, name, data)
            if knows:
                return ResourceLink(**about.model_dump())
            return TextContent(type="text", text=f"[{about.name}: resource {about.uri}]")

        return link

    def find(self, uri: str) -> File | None:
        """Return a file of the caller."""
        return self._of_caller().get(uri)

    def listed(self) -> list[Resource]:
        """Return the newest files of the caller."""
        with self._lock:
            return [file.about for file in islice(reversed(self._of_caller().values()), LISTED)]

    def _of_caller(self) -> OrderedDict[str, File]:
        return self._files.get(caller.get(), OrderedDict())
