"""One container from start to end: the runtime's process, its three streams, its deadline, what it has used.

No thread and no process besides the runtime's: the caller's thread waits for everything at once in poll(2).
"""

from __future__ import annotations

import array
import contextlib
import itertools
import math
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from pysbx.base import children, runtime
from pysbx.base.option_names import current
from pysbx.container import answer_frame, labels, limits, payload, reaper, unpatched
from pysbx.container.artifacts import Collected, Directories
from pysbx.container.bundle import Bundle
from pysbx.container.interpreter import trusted
from pysbx.container.process import (
    BASE,
    CATEGORIES,
    CONFIGURATION,
    ORDER,
    SNAPSHOT,
    STATUS,
    Cancelled,
    Deadline,
    Ended,
    NoAnswer,
    Process,
    TooLarge,
)
from pysbx.container.status import UNCONTAINED, ColdStart, Status
from pysbx.container.streams import READABLE, OutputCallback, Streams
from pysbx.errors import SandboxStartupError
from pysbx.inside.wire import GREETING, HEADER, MARK_SIZE, PASSES

if TYPE_CHECKING:
    from pysbx.container.cpu_time import Meter
    from pysbx.container.isolation import Home
    from pysbx.options.keywords import Options

Message = dict[str, Any]

CHUNK = 1 << 16
# The variables from which programs and libraries learn which file has the authorities that they trust.
TRUST = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE", "DENO_CERT", "CARGO_HTTP_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)  # fmt: skip
MAX_GREETING = 1 << 14  # bytes; it has the reason of a cold start
# After its program has answered and ended, a container ends within a few milliseconds.
GRACE_SEC = 10.0
# Until the greeting a start may make a snapshot (builder.timeout of warm.json: a minute), and import modules
# if that fails. Both take longer on a busy machine, and neither is the time of the program.
START_SEC = 120.0
LONGEST_WAIT_SEC = 86400.0  # poll(2) takes milliseconds in 32 bits
KILL_AGAIN_SEC = 0.1
# Code in a session may catch an interrupt, or may not have begun when the first one comes.
INTERRUPT_AGAIN_SEC = 0.5
MAX_REASON = 1000
# How a container can wait for its use: for a call that takes it as it is, and for the state of a session.
FOR_CALL, FOR_STATE = "--compare-fd", "--snapshot-fd"
FITS = b"y"  # the answer of a runtime that has compared files: run --compare-fd
DESCRIPTOR = struct.Struct("i")
CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_numbers = itertools.count(1)


def _proxy_for(options: Options) -> Message:
    """Start the proxy of a network that names hosts, if it does not run yet; return the fields that requests get."""
    if options.allow_network.kind != "hosts":
        return {}
    from pysbx.network import proxy  # noqa: PLC0415 (asyncio takes longer to import than a container to start)
    from pysbx.options.secrets import opened  # noqa: PLC0415 (a sandbox without hosts has none)

    entries, own = options.allow_network.entries, dict(options.env)
    found: Message = {"proxy": proxy.ensure(entries, options.secrets, trusted())}
    if opened(entries, options.secrets):
        # Not in the configuration: a snapshot would depend on the file, which is another one for each program.
        found["trust"] = {name: f"{payload.PROXIES}/{proxy.AUTHORITIES}" for name in TRUST if name not in own}
    return found


@dataclass(frozen=True)
class Usage:
    """The resources that a sandbox has used.

    Attributes:
        wall_sec: time by the clock, from its start to its end, in seconds.
        cpu_sec: CPU time of all its processes, and of the runtime for it, in seconds.
        peak_memory_mb: the most memory that one of its processes has held, in MiB, until the last answer. The sandbox
            itself reports it; None if it was killed before. It cannot be measured from outside: the peak of a process
            persists across execve(2), and the runtime begins as a copy of this program.
    """

    wall_sec: float = 0.0
    cpu_sec: float = 0.0
    peak_memory_mb: float | None = None


class Beside(Protocol):
    """Work that a container does while it waits for an answer: the calls of tools."""

    def __contains__(self, descriptor: int) -> bool:
        """Tell whether a descriptor is for serve()."""

    def serve(self, descriptor: int, events: int) -> None:
        """Do what the events of a descriptor demand."""

    def expire(self) -> float:
        """Do what the time demands, and return when it demands something next, by time.monotonic()."""


class Container:
    """A container of a bundle, running; use it in a with statement, which ends it."""

    def __init__(
        self,
        bundle: Bundle,
        on_output: OutputCallback | None = None,
        cancel: int = -1,
        snapshot: int = -1,
        base: int = -1,
        *,
        keeps_files: bool = True,
        waits: str = "",
    ) -> None:
        """Start the container.

        Args:
            bundle: the bundle that it is created from.
            on_output: called with "stdout" or "stderr" and the text that has just come through it, up to the limit; a
                character that comes in two parts is handed on with the second.
            cancel: a descriptor; once it can be read, the container is killed and Cancelled raised.
            snapshot: a descriptor of the file that runtime.save_process has written: the container continues from
                there.
            base: the descriptor that it has returned.
            keeps_files: whether collect() will be called.
            waits: FOR_CALL: order() and begin() use it later; FOR_STATE: restore() does.
        """
        self.poll = unpatched.make_poll()
        self.streams = Streams(bundle.options.output_limit, self.poll, on_output)
        self.warm = False
        self.version: tuple[int, int] | None = None
        self._answer_limit = bundle.options.answer_limit
        self._cancel = cancel
        self.beside: Beside | None = None
        self._incoming = bytearray()
        self._usage: Usage | None = None
        self._meter: Meter | None = None
        self._code = -1
        self._order: unpatched.socket | None = None
        self._waits = waits
        self.on_end: Callable[[], None] | None = None  # called by close()
        # Takes a container that has answered its last request; it waits for the end, and closes it.
        self.successor: Callable[[Container], bool] | None = None
        self._answered = False
        self._peak: float | None = None
        self._began = time.monotonic()
        self.options = bundle.options
        self.name = f"{reaper.prefix()}{next(_numbers)}"
        self._proxy = _proxy_for(bundle.options)
        self.sender = 0
        self.interrupted = False  # in the last exchange, because its time was over
        self._stopped: list[int] | None = None  # by freeze(), without a cgroup
        self._keeps_files = keeps_files
        self._identifies = True  # until its greeting
        self._worker = 0  # its process, and when the present request or its greeting has come
        self._since = 0.0
        self._asked = False
        self._root = bundle.path / "rootfs"
        self._home: Home | None = None
        self.directories: Directories | None = None
        self._start(bundle, {SNAPSHOT: snapshot, BASE: base})

    def __enter__(self) -> Container:
        """Return the container itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End the container, even if it is at work."""
        self.close()

    def _start(self, bundle: Bundle, saved: dict[int, int]) -> None:
        status = ("--status-file", f"/proc/self/fd/{STATUS}")
        run = ["run", "--init", "--bundle", str(bundle.path), *status]
        passed = {number: descriptor for number, descriptor in saved.items() if descriptor >= 0}
        for number, option in (SNAPSHOT, "--snapshot"), (BASE, "--snapshot-base"):
            if number in passed:
                run += [option, f"/proc/self/fd/{number}"]
        if bundle.labelled:
            run += ["--config", f"/proc/self/fd/{CONFIGURATION}"]
        if self._waits:
            run += [self._waits, str(ORDER)]
        arguments = runtime.command(*run, self.name, manager=bundle.enforcement.manager)
        if bundle.options.isolation == "process":
            from pysbx.container import isolation  # noqa: PLC0415 (few sandboxes are such)

            self._home = isolation.Home(bundle, self.name)
            self._root = self._home.path
            arguments = runtime.command("confine", "--bundle", str(self._root), *status)
        # Descriptors that are open here are closed again if a step fails. A server lives on, and would run out of them.
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as given:
            if bundle.labelled:
                passed[CONFIGURATION], passed[CATEGORIES] = labels.individual(bundle.path)
                for number in (CONFIGURATION, CATEGORIES):
                    given.callback(os.close, passed[number])
            if self._waits:
                self._order, theirs = unpatched.make_pair()
                failed.callback(self._order.close)
                given.callback(theirs.close)
                passed[ORDER] = theirs.fileno()
            ours, theirs = unpatched.make_pair()
            failed.callback(ours.close)
            given.callback(theirs.close)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, True)
            failed.callback(self.streams.close)
            ends = self.streams.open(given)
            self._status = Status()
            failed.callback(self._status.close)
            passed[STATUS] = self._status.theirs
            given.callback(os.close, passed[STATUS])
            self._process = Process(arguments, {0: theirs.fileno(), **ends}, passed, failed)
            failed.pop_all()
        ours.setblocking(False)
        self._socket: unpatched.socket | None = ours
        for descriptor in (ours.fileno(), self._process.pidfd, *([self._cancel] if self._cancel >= 0 else [])):
            self.poll.register(descriptor, READABLE)

    def order(self) -> None:
        """Let the runtime of a container that waits compare the files of the snapshot."""
        assert self._order is not None
        with contextlib.suppress(OSError):  # it has ended
            self._order.send(b"\0", socket.MSG_NOSIGNAL)

    def begin(self, on_output: OutputCallback | None, cancel: int, *, keeps_files: bool) -> bool:
        """Use a container that waits, after order(), for the call that has taken it.

        The arguments are those of __init__. Return False if its program is not what a start would make now.
        """
        assert self._order is not None
        poll = unpatched.make_poll()
        poll.register(self._order.fileno(), select.POLLIN)
        poll.register(self._process.pidfd, select.POLLIN)  # it may have been killed since its answer
        fits = False
        with contextlib.suppress(OSError):  # it has ended
            seen = [descriptor for descriptor, _ in poll.poll(GRACE_SEC * 1000)]
            fits = seen == [self._order.fileno()] and self._order.recv(1, socket.MSG_DONTWAIT) == FITS
        if not fits:
            return False
        self._keeps_files = keeps_files
        self.use(on_output, cancel)
        return True

    def use(self, on_output: OutputCallback | None, cancel: int) -> None:
        """Give a container that waits to its user: see __init__."""
        self.streams.on_output, self._cancel = on_output, cancel
        if cancel >= 0:
            self.poll.register(cancel, READABLE)
        self._proxy = _proxy_for(self.options)
        self._began = time.monotonic()

    def restore(self, snapshot: int, base: int) -> None:
        """Let a container that waits for it continue from a snapshot: descriptors for reading; see __init__."""
        assert self._order is not None
        passed = array.array("i", [snapshot, base] if base >= 0 else [snapshot])
        with contextlib.suppress(OSError):  # it has ended
            self._order.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])

    def abandon(self) -> None:
        """Close the descriptors of a container that belongs to the process of which this one is a fork."""
        self._usage = Usage()
        self._close()

    def exchange(
        self, request: Message, timeout: float, *, last: bool, patience: float | None = None, passed: int = -1
    ) -> Message:
        """Send a request and return the answer.

        Args:
            request: what the worker in the sandbox understands.
            timeout: seconds until the container is killed: from now, or from its greeting if that has not come.
            last: no further request will come, so that the container ends after its answer.
            patience: if given, the code is only interrupted after that time, which counts from the moment when it has
                the whole request. If it has not answered so many seconds later, the container is killed.
            passed: a descriptor that the worker gets a copy of.

        Raises:
            SandboxStartupError: the container did not come to life; the runtime's words.
            SandboxOptionError: it did not because of an option.
            Deadline, Cancelled, Ended, NoAnswer, TooLarge: see there.
        """
        request = {**request, **self._proxy}
        import msgpack  # noqa: PLC0415 (a program may make no sandbox)

        content = msgpack.packb(request, unicode_errors="surrogatepass")
        mark = os.urandom(MARK_SIZE)
        outgoing = memoryview(HEADER.pack(len(content) | (PASSES if passed >= 0 else 0), mark) + content)
        longest = timeout + (patience or 0)
        deadline = time.monotonic() + longest + (START_SEC if self.version is None else 0)
        late = math.inf
        self.interrupted = False
        self._since = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._peak = None  # until this answer has come
        while True:
            begun = self.version is not None
            message = self._message(mark if begun else GREETING)
            if message is not None:
                if begun:
                    break
                self._greet(message)
                deadline = time.monotonic() + longest
                continue
            # Not before the greeting: the code could end before its files are opened.
            sending = (bool(outgoing) or passed >= 0) and (begun or not self._keeps_files)
            if sending and self._socket is not None:
                outgoing, passed = self._send(outgoing, passed, last=last)
                sending = bool(outgoing) or passed >= 0
            if patience is not None and begun and not outgoing:
                if late == math.inf:
                    late = time.monotonic() + timeout
                    deadline = late + patience
                elif time.monotonic() >= late:
                    late = time.monotonic() + INTERRUPT_AGAIN_SEC
                    self.interrupted = True
                    self.interrupt()
            self._wait(deadline, late, sending=sending)
            if self._socket is None:
                self._end_without_answer(deadline)
        peak = message.pop("peak_kib", None)
        self._peak = peak / 1024 if isinstance(peak, int) else None
        if last and self.successor is None:
            self._finish(min(deadline, time.monotonic() + GRACE_SEC))
        else:
            self.streams.drain()
        self._answered = last
        return message

    def has_begun(self) -> bool:
        """Tell whether the worker has sent its greeting, even if it has not been read yet. Any thread may call this."""
        channel = self._socket
        if self.version is not None or self._incoming or channel is None:
            return True
        poll = unpatched.make_poll()
        with contextlib.suppress(OSError, ValueError):  # closed just now
            poll.register(channel.fileno(), select.POLLIN)
        return bool(poll.poll(0) or self._incoming or self.version)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs, and interrupt the programs that it has started.

        While none runs nothing happens. Any thread may call this.
        """
        # An interpreter that is still starting would end.
        if not self.has_begun():
            return
        from pysbx.container import stopping  # noqa: PLC0415 (few runs are interrupted)

        # Where other users' processes are hidden, the runtime reaches the interpreter alone: hidepid in proc(5).
        if self._usage is None and not stopping.interrupt(self._worker, self._since) and self._home is None:
            runtime.call("kill", self.name, "INT")

    def _greet(self, message: Message) -> None:
        # It has no request yet. So the process that sent the greeting waits for one, and its code has not begun.
        self._worker, self._since = self.sender, time.clock_gettime(time.CLOCK_BOOTTIME)
        self.warm = message.get("warm") is True
        if isinstance(reason := message.get("cold"), str) and reason:
            self._status.cold = ColdStart("snapshot-unfit", reason[:MAX_REASON])
        try:
            major, minor = message["hello"]
            self.version = (int(major), int(minor))
        except (KeyError, TypeError, ValueError, OverflowError):  # the last: of infinity
            self._refuse("a malformed greeting")
        if self._keeps_files:
            self.directories = Directories(self.sender, self._root, beside=self._home is not None)
        self._set_identifies(self._asked)
        self.streams.begin()

    def _refuse(self, what: str) -> NoReturn:
        self.kill()
        raise NoAnswer(what)

    def _message(self, mark: bytes) -> Message | None:
        """Take a whole message with a mark off what has come in."""
        if len(self._incoming) < HEADER.size:
            return None
        size, found = HEADER.unpack_from(self._incoming)
        if found != mark:
            self._refuse("what is no answer to this request: its code writes to the worker's socket")
        if size > (self._answer_limit if self.version is not None else max(self._answer_limit, MAX_GREETING)):
            self.kill()
            raise TooLarge(f"is larger than {current().options['answer']}, {self._answer_limit} bytes")
        if len(self._incoming) < HEADER.size + size:
            return None
        content = bytes(memoryview(self._incoming)[HEADER.size : HEADER.size + size])
        del self._incoming[: HEADER.size + size]
        try:
            message = answer_frame.unpack(content)
        except answer_frame.TooMany:
            self.kill()
            raise TooLarge(f"has more than {answer_frame.MAX_ELEMENTS} elements") from None
        except Exception:  # hostile bytes can make the library raise any exception
            message = None
        if not isinstance(message, dict):
            self._refuse("a malformed answer")
        return message

    def _send(self, outgoing: memoryview, passed: int, *, last: bool) -> tuple[memoryview, int]:
        """Send of a request what can be sent now, its descriptor last; return what is left of both."""
        assert self._socket is not None
        try:
            outgoing = outgoing[self._socket.send(outgoing) :]
            passed = passed if outgoing else self._pass(passed)
            if last and not outgoing and passed < 0:
                self._socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            return memoryview(b""), -1  # it has ended; the read will show that
        return outgoing, passed

    def _pass(self, descriptor: int) -> int:
        """Send a copy of a descriptor, with a byte. Return -1, or the descriptor if that has to be tried again."""
        assert self._socket is not None
        if descriptor >= 0:
            try:
                self._socket.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, DESCRIPTOR.pack(descriptor))])
            except BlockingIOError:
                return descriptor
            except OSError:
                pass  # it has ended; the read will show that
        return -1

    def _wait(self, deadline: float, until: float = math.inf, *, sending: bool = False) -> None:
        """Wait until something can be read, or written, and read it; not beyond a time."""
        if self._socket is not None:
            self.poll.modify(self._socket.fileno(), READABLE | (select.POLLOUT if sending else 0))
        waits = True
        while waits:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                self.kill()
                raise Deadline
            beside = self.beside
            until_next = until if beside is None else min(until, beside.expire())
            remaining = min(remaining, max(0.0, until_next - time.monotonic()), LONGEST_WAIT_SEC)
            found = self.poll.poll(remaining * 1000 + 1)
            waits = False
            for descriptor, events in found:
                if beside is not None and descriptor in beside:
                    beside.serve(descriptor, events)
                    # At once: the thread that carries out a call goes on when this one waits.
                    waits = len(found) == 1 and time.monotonic() < until
                elif events & READABLE:
                    self._read(descriptor)

    def _read(self, descriptor: int) -> None:
        if descriptor in self.streams:
            self.streams.read(descriptor)
        elif descriptor == self._cancel:
            self.kill()
            raise Cancelled
        elif descriptor == self._process.pidfd:
            self.poll.unregister(descriptor)
        elif self._socket is not None:
            try:
                data = self._receive(self._socket)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self._incoming += data
            else:
                self._close_socket()

    def identify_sender(self, *, wanted: bool) -> None:
        """Let the kernel say which process sends each message from now on; its number is in `sender`."""
        self._asked = wanted
        if self.version is not None:
            self._set_identifies(wanted)

    def _set_identifies(self, wanted: bool) -> None:
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, wanted)
        self._identifies = wanted
        self.sender = 0

    def _receive(self, channel: unpatched.socket) -> bytes:
        # The C library asks the kernel for a large buffer anew each time, so the first of an answer is small.
        size = CHUNK * 16 if self._incoming else CHUNK
        if not self._identifies:
            return channel.recv(size)
        # Room for the sender and no more: the sandbox could pass descriptors as well, which the kernel then discards.
        data, about, _, _ = channel.recvmsg(size, socket.CMSG_SPACE(CREDENTIALS.size))
        for level, kind, content in about:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                self.sender = CREDENTIALS.unpack(content)[0]
        return data

    def _close_socket(self) -> None:
        if self._socket is not None:
            self.poll.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _end_without_answer(self, deadline: float) -> None:
        self._finish(deadline)
        if self.version is None:
            # Not even the greeting: what is on standard error is the runtime's or the interpreter's complaint.
            said = (
                self.streams.outputs[2].take()[0].strip()
                or f"the container ended with code {self._code} and said nothing"
            )
            limits.forget()
            from pysbx.container.start_refusals import refusal_of, remedy_for  # noqa: PLC0415 (for an error only)

            said = said.removeprefix("pysbx-runtime: ")
            code, detail = self._status.error
            refusal = refusal_of(code, detail or said, self.options, oom_kills=self._status.oom_kills)
            if refusal is not None:
                raise refusal
            remedy = remedy_for(code)
            raise SandboxStartupError(said + (remedy and f": {remedy}"), code)
        raise Ended(self._code, self._status.signal, self._status.oom_kills)

    def _finish(self, deadline: float) -> None:
        """Wait for the end of the runtime's process, and take what is left in the streams."""
        while self._usage is None:
            if self._process.has_ended(0.0):
                self._reap()
                break
            self._wait(deadline)
        self.streams.drain()
        self._close()

    def _reap(self, spent_sec: float = 0.0) -> None:
        end = self._process.reap()
        self._code, cpu_sec = end or children.End(-1, 0.0)
        self._status.read()
        if end is None and self._status.code is not None:
            self._code = self._status.code
        if self._code < 0 and self._home is None:  # a runtime that was killed has removed nothing
            runtime.kill(self.name)
        self._usage = Usage(time.monotonic() - self._began, max(cpu_sec, spent_sec), self._peak)

    @property
    def cold(self) -> ColdStart | None:
        """The reason why its interpreter was started cold; None if it was not, or the runtime has given none."""
        if self.warm or self.version is None:
            return None
        if self._home is not None:
            return UNCONTAINED
        return self._status.wait_for_cold()

    def _close(self) -> None:
        self._close_socket()
        if self._order is not None:
            self._order.close()
            self._order = None
        for part in (self.streams, self._status, self._process):
            part.close()

    def _end(self) -> None:
        """Let every process of the container be killed."""
        if self._order is not None:  # the runtime removes the container
            with contextlib.suppress(OSError):  # a fork of this program may have a copy, so it is not only closed
                self._order.shutdown(socket.SHUT_RDWR)
            self._order.close()
            self._order = None
            if self._process.has_ended(KILL_AGAIN_SEC):
                return
        if self._home is None:
            runtime.kill(self.name)
        else:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # it may be frozen

    def freeze(self, *, frozen: bool) -> str:
        """Stop all processes, or let them go on. Return "", or why that is not possible."""
        from pysbx.container import stopping  # noqa: PLC0415 (few sessions are paused)

        if self._home is not None:
            return stopping.signal_group(self._process.pid, signal.SIGSTOP if frozen else signal.SIGCONT)
        if self._stopped is not None:
            stopped, self._stopped = self._stopped, None
            stopping.go_on(stopped)
            return ""
        done = runtime.call("pause" if frozen else "resume", self.name)
        if done.returncode != 0 and frozen:
            self._stopped = stopping.stop(self._process.pid)
        return "" if done.returncode == 0 or self._stopped is not None else done.stderr.strip()

    def kill(self) -> None:
        """End the container, if it has not ended, and remove it."""
        if self._usage is None:
            deadline = time.monotonic() + GRACE_SEC
            # The kernel does not count the time of processes that it ends because their init is killed.
            spent_sec = 0.0
            with contextlib.suppress(OSError, ImportError):  # no descriptor is left, not even for a module
                spent_sec = self._read_cpu()
            self._end()
            # A runtime that is still creating the container finds it gone, and ends by itself. A runtime that had not
            # begun yet creates it after all: then the container has to be killed again.
            while not self._process.has_ended(KILL_AGAIN_SEC) and time.monotonic() < deadline:
                self._end()
            if not self._process.has_ended(0.0):
                self._process.send_signal(signal.SIGKILL)
                self._end()
            self._reap(spent_sec)
            try:
                self.streams.drain()
            finally:  # the callback for output may raise, and may be the reason for this call
                self._close()
        elif self._process.pidfd >= 0:
            self._close()

    @property
    def is_open(self) -> bool:
        """Whether it was not closed or killed, and so has descriptors and a child process of this program."""
        return self._process.pidfd >= 0

    @property
    def has_ended(self) -> bool:
        """Whether its runtime has ended."""
        return self._process.has_ended(0.0)

    def close_if_ended(self, timeout: float) -> bool:
        """Wait so many seconds for its end, and tell whether it has come. Output is not read any more."""
        if not self._process.has_ended(timeout):
            return False
        self._reap()
        self._close()
        self.close()
        return True

    def close(self) -> None:
        """End the container, and give up its files."""
        successor, self.successor = self.successor, None
        if self._answered and successor is not None and successor(self):
            return
        try:
            self.kill()
        finally:
            if self.directories is not None:
                self.directories.close()
            if self._home is not None:
                self._home.remove()
            if self.on_end is not None:
                self.on_end()

    def note(self, patterns: Iterable[str], only: Iterable[str] | None = None) -> None:
        """Take files that exist for collected: see artifacts.Directories."""
        if self.directories is not None:
            self.directories.note(patterns, only)

    def collect(self, patterns: Iterable[str]) -> Collected:
        """Return the files of /output and /work that are new since the last call: see artifacts.Directories."""
        if self.directories is None:
            return Collected({}, ())
        return self.directories.collect(patterns, self._answer_limit // 2)

    @property
    def usage(self) -> Usage:
        """The resources that the container has used until now."""
        # In this order: a process that has not been waited for keeps its number.
        found = Usage(time.monotonic() - self._began, 0.0 if self._usage else self._read_cpu(), self._peak)
        return self._usage or found

    @property
    def recent_cpu_sec(self) -> float:
        """The CPU time in seconds that the container has used until now, or until spent.RECENT_SEC ago."""
        found = 0.0 if self._usage else self._read_cpu(fresh=False)
        return self._usage.cpu_sec if self._usage else found

    def _read_cpu(self, *, fresh: bool = True) -> float:
        if self._meter is None:
            from pysbx.container.cpu_time import Meter  # noqa: PLC0415 (for sessions only)

            self._meter = Meter(self._process.pid)
        return self._meter.read(settled=self.version is not None, fresh=fresh)
