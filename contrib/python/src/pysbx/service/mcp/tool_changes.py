"""Tell clients of MCP that the descriptions of tools have changed, which they do while the sandboxes are prepared.

A client of the protocol's version 2026-07-28 subscribes to that, over any transport. An older one is told without being
asked, which needs a connection that lasts: standard input and output. See the specification, server/tools, "List
Changed Notification", and the package's mcp/server/subscriptions.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler, ServerEvent, ToolsListChanged
from mcp_types import NotificationParams, SubscriptionsListenRequestParams

from pysbx.service.sandboxes.preparation import Preparation


class Changes:
    """The package's SubscriptionBus; the only event is that the tools have changed."""

    def __init__(self, preparation: Preparation, most: int) -> None:
        """Take the source of the events, and how many subscriptions there may be, of which each has a request."""
        self._preparation = preparation
        self._handler = ListenHandler(self, max_subscriptions=most)

    async def publish(self, event: ServerEvent) -> None:
        """Do nothing: no other part has an event."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call a function in this thread's loop at each change; return what ends that."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                if self._preparation.stopping:
                    loop.call_soon_threadsafe(self._handler.close)
                else:
                    loop.call_soon_threadsafe(listener, ToolsListChanged())

        end = self._preparation.watch(tell)
        if self._preparation.stopping:
            tell()
        return end

    def serve(self, server: Server[Any]) -> None:
        """Let the clients of a server subscribe."""
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._handler)

    def tell_without_subscription(self, server: Server[Any]) -> None:
        """Tell a client of an older version, once it is ready, over the one connection that there is."""
        tasks: set[asyncio.Task[None]] = set()

        async def begin(context: ServerRequestContext[Any, Any], _: NotificationParams) -> None:
            def tell(_: ServerEvent) -> None:
                task = asyncio.ensure_future(context.session.send_tool_list_changed())
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            self.subscribe(tell)

        server.add_notification_handler("notifications/initialized", NotificationParams, begin)
