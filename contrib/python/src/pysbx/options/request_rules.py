"""Rules by method and path for HTTP requests to a host: how a path is compared, and which ones are refused.

A server decides what a path means, and servers differ. So a path that some of them read as another one is refused:
see RFC 3986, 5.2.4 and 6.2.2.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normal_path(path: str) -> str:
    """Return a path without needless escapes, whose segments are what every server takes them for.

    Raises:
        ValueError: it is none, or has a segment that a server may read as another path; the text follows "the path".
    """
    if not re.fullmatch(r"(?:/(?:[!$&-.0-~]|%[0-9A-Fa-f]{2})*)+", path) or "\\" in path or "?" in path:
        raise ValueError("is not one that begins with '/', in printable characters and whole escapes")
    *inner, last = path.split("/")[1:]
    if "" in inner:
        raise ValueError("has an empty segment")
    for segment in (*inner, last):
        _check_segment(segment)
    return re.sub(r"%..", _shorter, path)


def _shorter(found: re.Match[str]) -> str:
    """Return an escape as every server compares it."""
    character = chr(int(found[0][1:], 16))
    return character if character in UNRESERVED else found[0].upper()


def _check_segment(segment: str) -> None:
    """Refuse a segment that leads up, or into another one, however often it is decoded."""
    text, encoded = "", segment
    try:
        while encoded != text:
            text, encoded = encoded, unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("has escapes that are not UTF-8") from None
    text = unicodedata.normalize("NFKC", text)
    if re.search(r"[/\\\x00-\x1f\x7f]", text):
        raise ValueError("has an encoded slash or control character")
    if text and not text.partition(";")[0].strip(". "):
        raise ValueError("has a segment of dots")


@lru_cache(maxsize=256)
def _pattern(path: str) -> re.Pattern[str]:
    begin, end = (path[:-1], ".*") if path.endswith("*") else (path, "")
    return re.compile("[^/]+".join(map(re.escape, begin.split("*"))) + end)


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether a normal path matches a pattern.

    Args:
        pattern: a normal path. "*" at its end stands for everything that follows, elsewhere for a part without "/".
        path: the path of a request.
    """
    return _pattern(pattern).fullmatch(path) is not None
