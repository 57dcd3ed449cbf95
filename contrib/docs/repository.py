"""A hook of MkDocs: pages link to any file of the repository, and the site contains the files they link to.

Links are relative to their file, so that they lead to the same file in the repository's own view. A link to a missing
file is a warning, which `strict` makes an error.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = "contrib/docs/pages"
INDEX = "contrib/docs/README.md"
# Files outside of the pages' directory that have a place in the navigation.
PLACED = {
    "README.md": "index.md",
    "SECURITY.md": "explanation/security.md",
    "runtime/README.md": "inside/runtime.md",
    "contrib/python/THREAT-MODEL.md": "explanation/threat-model.md",
}
LINK = re.compile(r"(?P<before>\]\(|^\[[^\]]+\]: +)(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=[)\s])", re.MULTILINE)
# Link syntax in code is not a link.
CODE = re.compile(r"^( *)(```|~~~).*?^\1\2|^(?: {4}|\t).*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)

log = logging.getLogger("mkdocs.hooks.repository")


def site_path(path: str) -> str:
    """Return the path of a repository file in the site's sources."""
    if path in PLACED:
        return PLACED[path]
    if path.startswith(f"{PAGES}/"):
        return path.removeprefix(f"{PAGES}/")
    return f"repository/{path}"


def target(source: str, link: str) -> str:
    """Return the repository file that a link of a file leads to. For a directory, it is the README."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def links(text: str) -> list[re.Match[str]]:
    """Return the links of a Markdown text to files."""
    code = [match.span() for match in CODE.finditer(text)]
    return [match for match in LINK.finditer(text) if not any(begin <= match.start() < end for begin, end in code)]


def reachable(start: list[str]) -> set[str]:
    """Return the repository files that these files lead to, by any number of links, and these files."""
    found, waiting = set(start), list(start)
    while waiting:
        source = waiting.pop()
        if not source.endswith(".md"):
            continue
        for link in links((ROOT / source).read_text(encoding="utf-8")):
            path = target(source, link["path"])
            if path in found:
                continue
            if not (ROOT / path).is_file():
                log.warning("%s: link to '%s': there is no file '%s'", source, link["path"], path)
                continue
            found.add(path)
            waiting.append(path)
    return found


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside of the pages' directory."""
    from mkdocs.structure.files import File  # type: ignore[import] # noqa: PLC0415 # only MkDocs has it

    pages = [f"{PAGES}/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    for path in sorted(reachable([*PLACED, *pages])):
        if not path.startswith(f"{PAGES}/"):
            files.append(File.generated(config, site_path(path), abs_src_path=str(ROOT / path)))
    return files


def on_config(config: Any) -> Any:
    """Make the navigation: the sections of the index of the repository's own view, with the pages that they link to."""
    sections = re.split("^## ", (ROOT / INDEX).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {one.splitlines()[0]: [site_path(target(INDEX, link["path"])) for link in links(one)] for one in sections}
    config["nav"] = [{"Start": ["index.md", "tutorial.md"]}, *({name: pages} for name, pages in found.items() if pages)]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change the links of a page so that they lead to the files in the site."""
    source = os.path.relpath(page.file.abs_src_path, ROOT)
    folder = posixpath.dirname(page.file.src_uri)
    for link in reversed(links(markdown)):
        path = posixpath.relpath(site_path(target(source, link["path"])), folder or ".")
        markdown = f"{markdown[: link.start('path')]}{path}{markdown[link.end('path') :]}"
    return markdown
