"""A headless Chromium that a test steers by the DevTools protocol, over pipes: --remote-debugging-pipe."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    *("--remote-debugging-pipe", "--window-size=1280,1000", "--lang=en"),
)
SECONDS = 60.0
# Keys of Input.dispatchKeyEvent: code and number.
KEYS = {"Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), ".": ("Period", 190, "")}
SHIFT, CONTROL = 8, 2


class Browser:
    """A browser that runs, and the pipes to it."""

    def __init__(self, write: int, read: int) -> None:
        """Use a browser that reads and writes at two descriptors."""
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Open an empty page in a tab of its own, with the storage of a tab, and close it at the end."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        yield Page(self, target)
        self.send("Target.closeTarget", targetId=target)

    def send(
        self, method: str, session: str = "", events: list[dict[str, Any]] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Send a command, to the browser or to a page, and return its result. Add that page's events to a list."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            found = self._message(deadline)
            if found.get("id") == self._number:
                assert "error" not in found, (method, found)
                result: dict[str, Any] = found["result"]
                return result
            if events is not None and "method" in found and found.get("sessionId") == session:
                events.append(found)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


class Page:
    """A page of the browser."""

    def __init__(self, browser: Browser, target: str) -> None:
        """Attach to a tab of a browser."""
        self._browser = browser
        self.events: list[dict[str, Any]] = []
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        return self._browser.send(method, self._session, self.events, **parameters)

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + SECONDS
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, (expression, self.text(), self.complaints())
            time.sleep(0.05)
        return found

    def go(self, address: str) -> None:
        """Open an address."""
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def text(self) -> str:
        """Return the text of the page."""
        return str(self.value("document.body.innerText"))

    def type(self, text: str) -> None:
        """Put text into the element that has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key."""
        code, number, text = KEYS[key]
        about = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        down = {"type": "keyDown", "text": text} if text and not modifiers else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **about, **down)
        self.send("Input.dispatchKeyEvent", **about, type="keyUp")

    def mode(self, scheme: str, width: int = 1280, height: int = 1000) -> None:
        """Let the page see light or dark mode, and a window of a size."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def complaints(self) -> list[str]:
        """Return the errors that the browser has noted: exceptions, refusals of the policy, failed requests."""
        self.value("1")
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"])[:500])
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for."""
        self.value("1")
        sent = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a profile of its own; at the end it and its profile are gone."""
    assert PROGRAM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as home:

        def wire() -> None:
            # The browser reads at 3 and writes at 4. Copies above these are safe from being overwritten.
            one, other = os.dup(to_read), os.dup(from_write)
            high = [os.dup(fd) for fd in (one, other)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        process = subprocess.Popen(
            [PROGRAM, *OPTIONS, f"--user-data-dir={home}", "about:blank"],
            preexec_fn=wire,  # noqa: PLW1509 (pass_fds cannot choose the numbers; wire only copies descriptors)
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            start_new_session=True,
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to_write, from_read)
        finally:
            os.close(to_write)
            os.close(from_read)
            process.kill()
            process.wait()
