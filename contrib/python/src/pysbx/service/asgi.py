"""The HTTP service as an ASGI application, for a server other than `pysbx serve`: `uvicorn pysbx.service.asgi:app`.

It does not bound connections and their pace, as `pysbx serve` does in listener.py and protocol.py. The server around
it, or a proxy, has to do that. See https://asgi.readthedocs.io/en/latest/specs/lifespan.html.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote

from pysbx.base.option_names import spoken_as
from pysbx.errors import SandboxError
from pysbx.service.connections import access
from pysbx.service.connections.admission import Application, Message, Receive, Scope, Send
from pysbx.service.http.api import make_api
from pysbx.service.http.pages import open_routes
from pysbx.service.observe.access_log import AccessLog
from pysbx.service.sandboxes.state import State, guarded
from pysbx.service.settings import add_serve, settings_of

logger = logging.getLogger(__name__)

# The options of `pysbx serve`, for `app`.
VARIABLE = "PYSBX_SERVE"
# These belong to the server around the application.
NOT_HERE = ("listen", "trusted_proxies", "connections", "connections_per_peer", "tls_cert", "tls_key")


class _Parser(argparse.ArgumentParser):
    """A parser that raises an exception, for no command line is at fault."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise ValueError(f"{self.prog}: {message}")


def _below(root: str, send: Send) -> Send:
    """Return a `send` for an application that is mounted: the places of its answers are those that clients see."""
    prefix = quote(root).encode()  # from the client, if the path of the mount has parameters

    async def send_place(message: Message) -> None:
        if "headers" in message:
            places = [(name, prefix + value if name == b"location" else value) for name, value in message["headers"]]
            message = {**message, "headers": places}
        await send(message)

    return send_place


class App:
    """The application. Its sandboxes are prepared when the server around it sends the event lifespan.startup.

    FastAPI and Starlette send no such event to an application that they mount: there it is `lifespan` that starts it.
    """

    def __init__(self, *options: str, needs_token: bool = True) -> None:
        """Prepare an application.

        Args:
            options: as of `pysbx serve`, such as "--profile", "minimal".
            needs_token: refuse to start without tokens. Pass False if the server around it knows its callers.
        """
        self._options = options
        self._needs_token = needs_token
        self._works: State | None = None
        self._application: Application | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._application is None:
            why = "its server needs support of lifespan; to mount it, make FastAPI(lifespan=app.lifespan)"
            raise RuntimeError(f"pysbx: the application was not started: {why}")
        else:
            path, root = scope["path"], scope.get("root_path", "").rstrip("/")
            if root and path.startswith(f"{root}/"):  # it is mounted there: its own paths are those that are documented
                scope = {**scope, "path": path[len(root) :], "root_path": ""}
                send = _below(root, send)
            await self._application(scope, receive, send)

    def _make(self) -> Application:
        parser = _Parser(prog=VARIABLE, add_help=False)
        add_serve(parser)
        given = parser.parse_args(list(self._options or shlex.split(os.environ.get(VARIABLE, ""))))
        for name in NOT_HERE:
            if getattr(given, name):
                raise ValueError(f"{name}: this is for `pysbx serve`: tell the server around the application")
        tokens = access.read_tokens(given.token_file)
        if self._needs_token and not tokens:
            raise ValueError(f"token: there is none: --token-file in {VARIABLE}, or {access.VARIABLE}")
        settings = settings_of(given)
        works = self._works = State(settings)
        pages = open_routes(agent_sandbox=settings.agent_sandbox)
        gate = guarded(make_api(works), works, settings, tokens, pages=pages)
        return AccessLog(gate, works.meters, works.audit)

    @asynccontextmanager
    async def lifespan(self, _around: object = None) -> AsyncIterator[None]:
        """Serve while the context lasts: FastAPI and Starlette take this as `lifespan`.

        Raises:
            SandboxError: there can be no sandboxes.
            ValueError: an option or the tokens are wrong.
            OSError: a file cannot be read.
        """
        self._application = await asyncio.to_thread(self._make)
        assert self._works is not None
        watch = asyncio.ensure_future(self._works.sessions.watch())
        try:
            with spoken_as("http", offered=self._works.offer.packages):
                yield
        finally:
            watch.cancel()
            await self._works.stop()
            self._works.audit.close()
            self._application = None

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except (SandboxError, ValueError, OSError) as error:
                logger.error("%s", error)
                await send({"type": "lifespan.startup.failed", "message": f"pysbx: {error}"})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


app = App()
