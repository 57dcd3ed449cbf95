#!/usr/bin/env python3
"""Look at the site of the documentation with a headless Chromium: usage: browse.py SITE.

Every page must fit into the window of a phone, in light and dark, and ask no other server. The search must find a word.
The exit status is 1 if something is wrong, and 77 without Chromium.
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "contrib" / "python" / "tests"))

from browser import PROGRAM, Page, browser  # type: ignore[import] # the directory is found when this runs

PHONE, DESK = (390, 844), (1280, 1000)
SEARCHED = "crun"
# Elements that are wider than the window, and that have no bar to move them.
WIDE = """[...document.querySelectorAll("article *")].filter(
    one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".md-typeset__scrollwrap, pre, svg")
).map(one => one.tagName + ": " + one.textContent.slice(0, 60))"""
COLOUR = "getComputedStyle(document.body).backgroundColor"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do not log requests."""


def pages_of(site: Path) -> list[str]:
    """Return the paths of the pages that are not copies of files of the repository."""
    found = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    return [path for path in found if not path.startswith("repository/")]


def look(page: Page, base: str, paths: list[str]) -> list[str]:
    """Return what is wrong with the pages."""
    wrong, colours = [], {}
    for scheme, size in (("light", PHONE), ("dark", PHONE), ("light", DESK)):
        page.mode(scheme, *size)
        for path in paths if size == PHONE and scheme == "light" else paths[:1]:
            page.go(f"{base}/{path}")
            wrong += [f"{path}: wider than {size[0]} pixels: {one}" for one in page.value(WIDE)]
        colours[scheme] = page.value(COLOUR)
    if len(set(colours.values())) != len(colours):
        wrong.append(f"light and dark have the same background: {colours}")
    # The site searches for the word itself once its search is ready. Text that is typed earlier is lost.
    page.go(f"{base}/index.html?q={SEARCHED}")
    page.wait("document.querySelectorAll('.md-search-result__item').length > 3")
    wrong += page.complaints()
    foreign = {one for one in page.requests() if not one.startswith((base, "data:", "blob:", "about:"))}
    wrong += [f"asks another server: {one}" for one in sorted(foreign)]
    return wrong


def main() -> int:
    """Look at a site, and return the exit status."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if PROGRAM is None:
        return 77
    site = Path(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    paths = pages_of(site)
    with browser() as chromium, chromium.page() as page:
        wrong = look(page, f"http://127.0.0.1:{server.server_port}", ["index.html", *paths])
    server.shutdown()
    print(*wrong, f"{len(paths)} pages", sep="\n")
    return int(bool(wrong) or len(paths) < 2)


if __name__ == "__main__":
    sys.exit(main())
