"""The output of a program through one stream: its beginning and its end, up to a limit."""

from __future__ import annotations

import codecs


def _whole_start(data: bytes) -> bytes:
    """Return bytes without a last character of UTF-8 that is cut off."""
    for back in range(1, min(4, len(data)) + 1):
        first = data[-back]
        if first & 0xC0 != 0x80:  # the first byte of the last character
            size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            return data[:-back] if size > back else data
    return data


def _whole_end(data: bytes) -> bytes:
    """Return bytes without the rest of a first character of UTF-8."""
    none = len(data) if len(data) < 4 else 0
    start = next((number for number, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), none)
    return data[start:]


class Output:
    """The output that came through one stream.

    If it is longer than the limit, the first half of the limit and the last half are kept: how it began, and the error
    at its end.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._most_at_end = limit // 2
        self._start = bytearray()
        self._end = bytearray()
        self._size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def truncated(self) -> bool:
        """Whether a part is left out."""
        return self._size > self._limit

    def add(self, data: bytes) -> str:
        """Keep bytes, and return the text that they complete; "" beyond the limit, where rest() returns the end."""
        now = data[: max(0, self._limit - self._size)]
        self._size += len(data)
        room = self._limit - self._most_at_end - len(self._start)
        self._start += data[:room]
        self._end += data[room:]
        if len(self._end) > 2 * self._most_at_end:
            self._trim()
        return self._decoder.decode(now)

    def _trim(self) -> None:
        del self._end[: max(0, len(self._end) - self._most_at_end)]

    def rest(self) -> str:
        """Return the text after that which add() has returned: a mark and the end, or a last character in part."""
        if not self._size:
            return ""
        left = self._size - self._limit
        self._trim()
        end = bytes(self._end[max(0, len(self._end) - left) :]) if left > 0 else b""
        missing = max(0, left) - len(end)
        if not missing:
            return self._decoder.decode(end, final=True)
        self._decoder.reset()
        return f"{_mark(missing)}{_decoded(_whole_end(end))}"

    def text(self) -> str:
        """Return the text since the last take(), with a mark where a part is left out, and leave it to be taken."""
        if not self.truncated:
            return _decoded(self._start + self._end)
        self._trim()
        start, end = _whole_start(bytes(self._start)), _whole_end(bytes(self._end))
        return f"{_decoded(start)}{_mark(self._size - len(start) - len(end))}{_decoded(end)}"

    def take(self) -> tuple[str, bool]:
        """Return the text since the last call, with a mark where a part is left out, and whether one is."""
        if not self._size:
            return "", False
        text, cut = self.text(), self.truncated
        self._start.clear()
        self._end.clear()
        self._size = 0
        return text, cut


def _mark(size: int) -> str:
    return f"\n[truncated: {size} bytes left out]\n"


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
