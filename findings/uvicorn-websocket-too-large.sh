#!/usr/bin/env bash
# uvicorn 0.54.0 with wsproto 1.3.2, or with websockets 17.4.
#
# A server of ASGI limits the size of a WebSocket message (ws_max_size). A client sends a larger one. uvicorn closes the
# connection with code 1009, and the application receives websocket.disconnect. If the application sends something after
# that, it depends on how the connection has ended:
#
# - The client has left: the send raises ClientDisconnected, which is an OSError. The specification of ASGI asks for one.
# - The message was too large: the send raises RuntimeError. Its text says that the application had sent websocket.close,
#   which it had not.
#
# So an application that handles OSError for clients that are gone logs a failure of its own for the second kind. The
# deprecated implementation of --ws websockets also reports code 1006 for 1009, and raises RuntimeError in both cases.
#
# This program prints what it sees, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check uvicorn==0.54.0 wsproto==1.3.2 websockets==17.4
cat >"$directory/expected" <<'OUTPUT'
wsproto: too large: code 1009, then RuntimeError: after sending 'websocket.close'
wsproto: client leaves: code 1000, then OSError
websockets-sansio: too large: code 1009, then RuntimeError: after sending 'websocket.close'
websockets-sansio: client leaves: code 1000, then OSError
websockets: too large: code 1006, then RuntimeError: after sending 'websocket.close'
websockets: client leaves: code 1000, then RuntimeError: after sending 'websocket.close'
OUTPUT
cat >"$directory/server.py" <<'PYTHON'
import asyncio
import warnings

import uvicorn
from websockets.asyncio.client import connect

warnings.simplefilter("ignore")
done = asyncio.Queue()


async def application(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    message = await receive()
    try:
        await send({"type": "websocket.send", "text": "an answer"})
        outcome = "nothing"
    except OSError:
        outcome = "OSError"
    except RuntimeError as error:
        known = "after sending 'websocket.close'"
        outcome = f"RuntimeError: {known if known in str(error) else error}"
    await done.put(f"code {int(message['code'])}, then {outcome}")


async def call(port, text):
    try:
        async with connect(f"ws://127.0.0.1:{port}") as client:
            if text:
                await client.send(text)
                await client.wait_closed()
    except Exception as error:  # the server has closed the connection
        print(f"client: {error}")
    return await asyncio.wait_for(done.get(), 20)


async def main():
    for implementation in "wsproto", "websockets-sansio", "websockets":
        config = uvicorn.Config(
            application, port=0, ws=implementation, ws_max_size=1000, log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        for name, text in ("too large", "x" * 5000), ("client leaves", ""):
            print(f"{implementation}: {name}: {await call(port, text)}", flush=True)
        server.should_exit = True
        await task


asyncio.run(main())
PYTHON
"$directory/venv/bin/python" "$directory/server.py" | tee "$directory/output"
diff "$directory/expected" "$directory/output" || { echo 'The behaviour has changed.' >&2; exit 1; }
