"""The page for a browser: GET / runs programs, by the same API as every caller.

It needs no token, because it contains nothing. The user enters the token, which stays in the tab. Output of a sandbox
gets to the page as text and images only. HTML is shown in a frame, which has an origin of its own and no network. The
policies below also refuse scripts, styles, forms and frames that are not files of this directory. See
https://www.w3.org/TR/CSP3/.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from pysbx.service.connections.admission import is_known

WEB = Path(__file__).with_name("web")
HTML = "text/html; charset=utf-8"
FRAME = "/web/frame.html"
# route, file, media type
PAGES: tuple[tuple[str, str, str], ...] = (
    ("/", "index.html", HTML),
    (FRAME, "frame.html", HTML),
    ("/web/colours.js", "colours.js", "text/javascript; charset=utf-8"),
    ("/web/editor.js", "editor.js", "text/javascript; charset=utf-8"),
    ("/web/page.css", "page.css", "text/css; charset=utf-8"),
    ("/web/page.js", "page.js", "text/javascript; charset=utf-8"),
    ("/web/service.js", "service.js", "text/javascript; charset=utf-8"),
)
ROUTES = tuple(route for route, *_ in PAGES)
# Of agent-sandbox: a kubelet asks without a token.
AGENT_ROUTES = ("/v1/health",)
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
# Of the frame, whose content may be hostile. The policy of the page keeps it from going to another address.
FRAME_POLICY = "; ".join(
    (
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "webrtc 'block'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-DNS-Prefetch-Control": "off",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With another version of the package come other pages.
    "Cache-Control": "no-cache",
}


def open_routes(*, agent_sandbox: bool) -> tuple[str, ...]:
    """Return the routes that need no token, besides those that tell the health of every server."""
    return (*ROUTES, *(AGENT_ROUTES if agent_sandbox else ()))


def add_pages(app: FastAPI, *, agent_sandbox: bool = False) -> None:
    """Add the pages to an application. They are no part of its description.

    Args:
        app: the application.
        agent_sandbox: whether clients of agent-sandbox ask for its health at /, where browsers get the page.
    """
    if agent_sandbox:
        _add_health(app)
    for route, name, kind in PAGES:
        _add(app, route, (WEB / name).read_bytes(), kind)


def _first_page() -> bytes:
    """Return the page. It says whether the caller is known without the token that the page may have."""
    content = (WEB / "index.html").read_bytes()
    return content.replace(b"<html ", b"<html data-known ", 1) if is_known.get() else content


def _add_health(app: FastAPI) -> None:
    @app.get("/", name="agent_root", include_in_schema=False)
    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return Response(_first_page(), media_type=HTML, headers={**HEADERS, "Vary": "Accept"})
        said = {"status": "ok", "message": "Sandbox Runtime is active."}
        return JSONResponse(said, headers={"Vary": "Accept"})


def _add(app: FastAPI, route: str, content: bytes, kind: str) -> None:
    headers = {**HEADERS, "Content-Security-Policy": FRAME_POLICY} if route == FRAME else HEADERS

    @app.get(route, name=f"page {route}", include_in_schema=False)
    async def page() -> Response:
        return Response(_first_page() if route == "/" else content, media_type=kind, headers=headers)
