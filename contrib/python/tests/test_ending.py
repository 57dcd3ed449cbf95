"""The end of a program is that of python3: exit code, output, files that were left open."""

# once: the caller's rights make no difference

from __future__ import annotations

import gzip
import io
import zipfile
from typing import Literal

import pytest

from pysbx import Sandbox, run_code
from tests.reference import NAME, difference

Warm = Literal["off", "auto"]

LOG = "class Log:\n    def __init__(self, name): self.name = name\n    def __del__(self): print('end of', self.name)\n"

SIGNAL = "import os, resource, signal, threading, time\n"
HANDLER = (
    "class H:\n    def __repr__(self): raise TypeError\n    def __eq__(self, other): raise TypeError\n"
    "    def __call__(self, *a): print('called')\n"
)
# Each is a program as it is; "/output" is a directory for files.
PROGRAMS = {
    "exit without a code": "import sys; sys.exit()",
    "exit with a number": "import sys; sys.exit(3)",
    "exit with a negative number": "import sys; sys.exit(-1)",
    "exit with more than a byte": "import sys; sys.exit(257)",
    "exit with more than a long": "import sys; sys.exit(1 << 70)",
    "exit with True": "import sys; sys.exit(True)",
    "exit with a string": "import sys; sys.exit('bye')",
    "exit with bytes": "import sys; sys.exit(b'bye')",
    "exit with a tuple": "import sys; sys.exit((1, 2))",
    "exit with a number of its own class": "import sys\nclass N(int):\n"
    "    def __and__(self, other): return 9\n    def __le__(self, other): raise ValueError\nsys.exit(N(5))",
    "exit with a number that lies": "import sys\nclass N:\n    __class__ = int\nsys.exit(N())",
    "exit with an object without text": "import sys\nclass N:\n    def __str__(self): raise ValueError\nsys.exit(N())",
    "exit with an exception": "import sys; sys.exit(ValueError('bye'))",
    "exit without standard error": "import sys; sys.stderr = None; sys.exit('bye')",
    "exit with closed standard error": "import sys; sys.stderr.close(); sys.exit('bye')",
    "exit with a broken standard error": "import sys\nclass E:\n    def write(self, text): raise OSError\n"
    "    def flush(self): pass\nsys.stderr = E()\nsys.exit('bye')",
    "exit of a class of its own": "class E(SystemExit):\n    @property\n    def code(self): return 7\nraise E",
    "exit of a class without a code": "class E(SystemExit):\n    @property\n    def code(self): raise ValueError\n"
    "    def __str__(self): return 'text'\nraise E",
    "exit by the function of site": "exit(4)",
    "exit within a finally": "import sys\ntry: 1 / 0\nfinally: sys.exit(2)",
    "exit in a function of atexit": "import atexit, sys\ndef f(): sys.exit(5)\natexit.register(f)",
    "exit in a thread": "import sys, threading\nthreading.Thread(target=sys.exit, args=(5,)).start()",
    "exception": "def f(): raise ValueError('text')\nf()",
    "exception with a cause": "try: 1 / 0\nexcept ZeroDivisionError as e: raise KeyError('k') from e",
    "exception without a text": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "exception with a broken repr": "class E(Exception):\n    def __repr__(self): return 5\nraise E(1)",
    "exception with notes": "e = ValueError('text')\ne.__notes__ = ['one', 2]\nraise e",
    "exception in a thread": "import threading\ndef f(): 1 / 0\nt = threading.Thread(target=f)\nt.start(); t.join()",
    "exception in __del__": "import sys\nsys.unraisablehook = lambda u: print(u.exc_type)\n"
    "class A:\n    def __del__(self): 1 / 0\na = A()",
    "exception in a function of atexit": "import atexit\ndef f(): 1 / 0\natexit.register(f)",
    "exception and a function of atexit": "import atexit, sys\natexit.register(print, 'x', file=sys.stderr)\n1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "interrupt of a class of its own": "class I(KeyboardInterrupt): pass\nraise I",
    "group with an exit": "raise BaseExceptionGroup('g', [SystemExit(3)])",
    "hook": "import sys\nsys.excepthook = lambda *e: print('hook', e[0].__name__, e[1], e[2].tb_lineno)\n1 / 0",
    "hook that exits": "import sys\ndef f(*error): sys.exit(6)\nsys.excepthook = f\n1 / 0",
    "hook that fails": "import sys\ndef f(*error): raise ValueError('hook')\nsys.excepthook = f\n1 / 0",
    "hook that is missing": "import sys\ndel sys.excepthook\n1 / 0",
    "hook and an exit": "import sys\nsys.excepthook = print\nsys.exit(3)",
    "last exception": "import atexit, sys\natexit.register(lambda: print(sys.last_type, sys.last_value))\n1 / 0",
    "objects": f"{LOG}log = Log('global')\nprint('last line')",
    "objects and atexit": f"import atexit\n{LOG}log = Log('global')\natexit.register(print, 'atexit')",
    "objects of a program that imports modules": "import asyncio, atexit, gc, gzip, io, logging, os, signal\n"
    f"import threading, traceback, warnings, weakref\ngc.set_threshold(1 << 30)\n{LOG}log = Log('global')",
    "objects in a cycle": f"import gc\ngc.disable()\n{LOG}a = Log('a'); a.a = a; a = None",
    "objects in a cycle and no standard output": f"import gc, sys\ngc.disable()\n{LOG}a = Log('a'); a.a = a; del a\n"
    "del sys.stdout",
    "names": "print(__name__, __builtins__, __loader__, __spec__, __package__, __file__, __doc__, sorted(vars()))",
    "deleted streams": "import sys; del sys.stdout, sys.stderr",
    "objects after an exception": f"import atexit\n{LOG}atexit.register(print, 'atexit')\n"
    "def f():\n    log = Log('local')\n    1 / 0\nf()",
    "objects after an exit": f"import atexit, sys\n{LOG}atexit.register(print, 'atexit')\n"
    "def f():\n    log = Log('local')\n    sys.exit(3)\nf()",
    "objects of a handler": f"import signal\n{LOG}log = Log('log')\ndef f(*a): log\nsignal.signal(signal.SIGUSR1, f)",
    "objects of a hook": "import os, sys\nclass Log:\n    def __del__(self, write=os.write): write(1, b'end')\n"
    "log = Log()\ndef f(*a): log\nsys.excepthook = f",
    "objects of a hook without streams": f"import sys\n{LOG}log = Log('log')\ndef f(*a): log\nsys.excepthook = f",
    "objects of a hook of threads": f"import threading\n{LOG}log = Log('log')\ndef f(*a): log\n"
    "threading.excepthook = f",
    "handler without a repr": f"import signal\n{HANDLER}signal.signal(signal.SIGUSR1, H())",
    "replaced functions": "import _signal, atexit, gc, signal\ndel _signal.signal, _signal.getsignal, signal.signal\n"
    "gc.collect = gc.isenabled = None; atexit.register(print, 'end'); atexit._run_exitfuncs = None",
    "no modules": "import sys; sys.modules.clear()",
    "replaced hook": "import sys; sys.__excepthook__ = None; 1 / 0",
    "objects that print to a closed descriptor": f"import os\n{LOG}log = Log('log')\nos.close(1)",
    "objects of a child": f"import os, sys\n{LOG}log = Log('log')\nif os.fork() == 0: sys.exit(3)\n"
    "print(os.waitstatus_to_exitcode(os.wait()[1]))",
    "hook of a child": "import os, sys\nsys.excepthook = lambda *e: print('hook', e[0])\nif os.fork() == 0: 1 / 0\n"
    "print(os.waitstatus_to_exitcode(os.wait()[1]))",
    "interrupt of a child": "import os\nif os.fork() == 0: raise KeyboardInterrupt\n"
    "print(os.waitstatus_to_exitcode(os.wait()[1]))",
    "files": "text = open('/output/text', 'w'); text.write('hi')",
    "file of a function after an exception, without collections": "import gc\ngc.disable()\n"
    "def f():\n    local = open('/output/text', 'w'); local.write('hi')\n    raise ValueError\nf()",
    "exception with a traceback of its own": "class E(Exception):\n    __traceback__ = 5\nraise E",
    "frames in a hook": "import sys\ndef f(kind, error, tb):\n    print(error.__traceback__ is tb, tb.tb_lineno)\n"
    "sys.excepthook = f\n1 / 0",
    "file in the place of standard output": "import sys\nsys.stdout = open('/output/text', 'w'); print('hi')",
    "archive in the place of standard output": "import gzip, sys\n"
    "sys.stdout = gzip.GzipFile('/output/a.gz', 'w', mtime=0); sys.stdout.write(b'hi')",
    "archive of a program with a hook, and of its child": "import gzip, os, sys\n"
    "a = gzip.GzipFile('/output/a', 'w', mtime=0); a.write(b'hi')\n"
    "if os.fork() != 0: os.wait()\nsys.excepthook = lambda *e: print('hook', e[0])",
    "file of a program without a main module": "import sys\nfor _ in range(3): print(None)\n"
    "text = open('/output/text', 'w'); text.write('hi')\nsys.modules['__main__'] = None",
    "closed standard output": "import sys; sys.stdout.close()",
    "closed descriptors": "import os; os.close(1); os.close(2)",
    "no standard output": "import sys; sys.stdout = None; print('hi')",
    "standard output that cannot be written": "import sys\nclass O:\n    def write(self, text): pass\n"
    "    def flush(self): raise OSError('full')\nsys.stdout = O()",
    "standard error that cannot be written": "import sys\nclass O:\n    def write(self, text): pass\n"
    "    def flush(self): raise OSError('full')\nsys.stderr = O()",
    "threads": "import threading, time\ndef f(): time.sleep(0.2); print('thread')\n"
    "threading.Thread(target=f).start()\nprint('main')",
    "threads after an exception": "import threading, time\ndef f(): time.sleep(0.2); print('thread')\n"
    "threading.Thread(target=f).start()\n1 / 0",
    "terminated by itself": f"{SIGNAL}os.kill(os.getpid(), signal.SIGTERM); print('goes on')",
    "killed by itself": f"{SIGNAL}os.kill(os.getpid(), signal.SIGKILL); print('goes on')",
    "hung up": f"{SIGNAL}os.kill(os.getpid(), signal.SIGHUP); print('goes on')",
    "quit": f"{SIGNAL}signal.raise_signal(signal.SIGQUIT); print('goes on')",
    "first signal of the user's": f"{SIGNAL}os.kill(os.getpid(), signal.SIGUSR1); print('goes on')",
    "last signal": f"{SIGNAL}os.kill(os.getpid(), signal.SIGRTMAX); print('goes on')",
    "interrupt with the default action": f"{SIGNAL}signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "os.kill(os.getpid(), signal.SIGINT); print('goes on')",
    "signals that do nothing by default": f"{SIGNAL}for n in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG):\n"
    "    os.kill(os.getpid(), n)\nprint('goes on')",
    "signal to its group": f"{SIGNAL}signal.signal(signal.SIGTERM, lambda *a: print('handled'))\n"
    "os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None\nos.kill(0, signal.SIGTERM); print('goes on')",
    "alarm": f"{SIGNAL}signal.alarm(1); time.sleep(3); print('goes on')",
    "timer of CPU time": f"{SIGNAL}signal.setitimer(signal.ITIMER_PROF, 0.1)\nwhile True: pass",
    "alarm in a thread": f"{SIGNAL}threading.Thread(target=time.sleep, args=(3,)).start(); signal.alarm(1)",
    "closed pipe": f"{SIGNAL}signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
    "a, b = os.pipe(); os.close(a); os.write(b, b'x'); print('goes on')",
    "closed pipe without a signal": f"{SIGNAL}a, b = os.pipe(); os.close(a)\n"
    "try: os.write(b, b'x')\nexcept BrokenPipeError: print('goes on')",
    "abort": "import os; os.abort()",
    "soft limit of CPU time": f"{SIGNAL}resource.setrlimit(resource.RLIMIT_CPU, (1, 5))\nwhile True: pass",
    "hard limit of CPU time": f"{SIGNAL}resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
    "file that is too large": f"{SIGNAL}signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)); number = os.open('/output/x', os.O_WRONLY | os.O_CREAT)\n"
    "os.write(number, b'x'); os.write(number, b'x'); print('goes on')",
    "invalid access to memory": "import ctypes; ctypes.string_at(0)",
    "objects of a thread": f"import threading, time\n{LOG}def f(log): time.sleep(0.2)\n"
    "threading.Thread(target=f, args=(Log('thread'),)).start()",
}  # fmt: skip


@pytest.mark.parametrize("warm", ["off", "auto"])
@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_ends_as_with_python(source: str, warm: Warm) -> None:
    done = run_code(source, name=NAME, files={NAME: source}, warm=warm)
    assert difference(source, done) == ""


@pytest.mark.parametrize("warm", ["off", "auto"])
def test_the_signal_that_ended_a_program_has_its_name(warm: Warm) -> None:
    for source, name in (
        ("import os; os.abort()", "SIGABRT, Aborted"),
        ("import signal, time; signal.alarm(1); time.sleep(3)", "SIGALRM, Alarm clock"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM, Terminated"),
    ):
        done = run_code(source, warm=warm)
        assert done.error is not None and (done.error.type, done.error.message) == ("Crash", name)
    done = run_code("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 5))\nwhile True: pass", warm=warm)
    assert done.error is not None and done.error.message.startswith("SIGXCPU, ")


ZOMBIES = (
    "import glob\ndef zombies():\n    return sum(open(n).read().rpartition(') ')[2][0] == 'Z' "
    "for n in glob.glob('/proc/[0-9]*/stat'))\n"
)
ORPHAN = "if os.fork() == 0:\n    os.fork()\n    os._exit(0)\nos.wait()\n"


@pytest.mark.parametrize("warm", ["off", "auto"])
def test_orphans_of_a_session_are_reaped(warm: Warm) -> None:
    """They would count as processes for ever: more of them than are allowed end here, one after another."""
    with Sandbox(warm=warm, max_processes=8) as session:
        assert session.run(f"import os, time\n{ZOMBIES}").error is None
        for _ in range(20):
            assert session.run(ORPHAN).error is None
        assert session.run("time.sleep(0.2); zombies()").value == "0"


def test_the_parent_of_a_program_is_an_init_that_it_cannot_end() -> None:
    done = run_code(
        "import os, signal\nprint(os.getpid(), os.getppid(), open('/proc/1/cmdline').read().split('\\0')[0])\n"
        "for n in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):\n    try: os.kill(1, n)\n"
        "    except PermissionError: print('refused')\n"
        "try: os.readlink('/proc/1/exe')\nexcept PermissionError: print('hidden')"
    )
    assert done.stdout == "2 1 init\nrefused\nrefused\nrefused\nhidden\n"


def test_the_time_of_a_program_that_is_killed_is_counted() -> None:
    source = "import time\nwhile True:\n    for _ in range(100000): pass\n    print(time.process_time(), flush=True)"
    done = run_code(source, timeout_sec=3)
    assert done.timed_out
    assert done.usage.cpu_sec > 0.8 * float(done.stdout.splitlines()[-2])


def test_archives_that_were_left_open_are_whole() -> None:
    done = run_code(
        "import gzip, zipfile\npacked = gzip.open('/output/a.gz', 'wt'); packed.write('text')\n"
        "archive = zipfile.ZipFile('/output/a.zip', 'w'); archive.writestr('name', 'text')"
    )
    assert gzip.decompress(done.artifacts["a.gz"]) == b"text"
    assert zipfile.ZipFile(io.BytesIO(done.artifacts["a.zip"])).namelist() == ["name"]


def test_archives_of_the_programs_own_modules_are_whole() -> None:
    module = "import gzip\npacked = gzip.open('/output/a.gz', 'wt'); packed.write('text')"
    done = run_code("import own", files={"own.py": module})
    assert gzip.decompress(done.artifacts["a.gz"]) == b"text"


def test_the_end_does_not_look_at_the_objects_of_preloaded_modules() -> None:
    """Each look writes to a page, which is copied then. With pandas, that took four times as long as all the rest."""
    done = run_code("import gc\nclass Log:\n    def __del__(self): print(gc.get_freeze_count() > 5000)\nlog = Log()")
    assert done.stdout == f"{done.warm}\n"


def test_a_module_ends_as_a_program() -> None:
    source = f"import atexit\n{LOG}log = Log('log')\natexit.register(print, 'atexit')"
    done = run_code("", module="own", files={"own.py": source})
    assert (done.stdout, done.stderr, done.exit_code) == ("atexit\nend of log\n", "", 0)
    done = run_code("", module="missing")
    assert done.error is not None
    assert (done.error.type, done.error.message) == ("ImportError", "No module named missing")


def test_a_session_keeps_what_a_run_has_left_open() -> None:
    with Sandbox() as session:
        assert session.run(f"{LOG}log = Log('log')").stdout == ""
        assert session.run("log.name").value == "'log'"
        assert session.run("import sys; sys.exit(3)").exit_code == 3
        assert session.run("log = None").stdout == "end of log\n"


def test_a_session_goes_on_with_a_handler_that_cannot_be_compared() -> None:
    with Sandbox(timeout_sec=10) as session:
        assert session.run(f"import os, signal\n{HANDLER}signal.signal(signal.SIGUSR1, H())").error is None
        assert session.run("os.kill(os.getpid(), signal.SIGUSR1)").stdout == "called\n"


def test_a_session_calls_the_hook_of_the_program() -> None:
    with Sandbox() as session:
        session.run("import sys\nsys.excepthook = lambda *e: print('hook', e[0].__name__)")
        done = session.run("1 / 0")
        assert done.error is not None
        assert (done.stdout, done.exit_code, done.error.type, done.error.shown) == (
            "hook ZeroDivisionError\n", 1, "ZeroDivisionError", True,
        )  # fmt: skip
