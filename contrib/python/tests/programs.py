"""Programs for test_differential.py: blocks of statements, each with one way to print, to leave open, or to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

IMPORTS = "import asyncio, atexit, gc, gzip, io, logging, os, signal, sys, threading, traceback, warnings, weakref\n"
# The moment of a collection differs with the number of objects that exist.
IMPORTS += "gc.set_threshold(1 << 30)\n"
# The child would write what the parent has not written yet.
IMPORTS += "def fork(): sys.stdout.flush(); sys.stderr.flush(); return os.fork()\n"

texts = st.text(st.characters(codec="utf-8"), max_size=12)
names = st.sampled_from(["a", "b", "c", "d"])
simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    texts,
    st.binary(max_size=8),
    st.complex_numbers(max_magnitude=10),
)
literals = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(texts, inner, max_size=3),
    ),
    max_leaves=6,
).map(lambda value: repr(value).replace("nan", "float('nan')").replace("inf", "float('inf')"))

# Each is an expression that gives an exception, or the class of one.
EXCEPTIONS = [
    "ValueError({0})",
    "KeyError({0})",
    "OSError(2, {0})",
    "StopIteration({0})",
    "GeneratorExit",
    "KeyboardInterrupt",
    "MemoryError({0})",
    "AssertionError",
    "UnicodeDecodeError('utf-8', b'abc', 1, 2, 'reason')",
    "SystemExit({0})",
    "type('Own', (Exception,), {{}})({0})",
    "type('Own', (BaseException,), {{}})({0})",
    "type('Own', (SystemExit,), {{}})({0})",
    "type('Own', (Exception,), {{'__str__': lambda self: {0}}})()",
    "type('Own', (Exception,), {{'__repr__': lambda self: {0}}})(1)",
    "type('Own', (Exception,), {{'__module__': {0}}})(1)",
    "type('Own', (Exception,), {{'__notes__': [{0}, 'note']}})(1)",
    "type('Own', (SystemExit,), {{'code': property(lambda self: 1 / 0)}})({0})",
]
exceptions = st.builds(lambda form, value: form.format(value), st.sampled_from(EXCEPTIONS), literals)

# Each is a list of statements; {0} and {1} are literals, {e} an exception, {n} a name of its own.
BLOCKS = [
    "print({0})",
    "print({0}, {1}, file=sys.stderr)",
    "print({0}, end='')",
    "sys.stdout.write(str({0})); sys.stdout.flush(); os.write(1, str({1}).encode())",
    "sys.stdout.flush(); sys.stdout.buffer.write(repr({0}).encode()); sys.stdout.buffer.flush()",
    "sys.stderr.write(repr({0}))",
    "{n} = open('/output/{n}', 'w'); {n}.write(repr({0}))",
    "{n} = open('/output/{n}', 'wb', buffering=0); {n}.write(repr({0}).encode())",
    "{n} = gzip.GzipFile('/output/{n}', 'w', mtime=0); {n}.write(repr({0}).encode())",
    "{n} = gzip.open('/output/{n}', 'wt') if False else io.BytesIO(repr({0}).encode())",
    "open('/output/{n}', 'w').write(repr({0}))",
    "atexit.register(print, {0}, file=sys.stderr)",
    "@atexit.register\ndef {n}():\n    print({0})\n    raise {e}",
    "class {n}:\n    def __del__(self): print('end', {0})\n{n}_ = {n}()",
    "class {n}:\n    def __del__(self): print('end', {0})\n{n}_ = [{n}()]; {n}_.append({n}_); del {n}_",
    "class {n}: pass\n{n}_ = {n}(); weakref.finalize({n}_, print, {0})",
    "def {n}():\n    try: yield {0}\n    finally: print('closed', {1})\n{n}_ = {n}(); print(next({n}_))",
    "{n} = threading.Thread(target=print, args=({0},)); {n}.start(); {n}.join()",
    "def {n}(): raise {e}\n{n}_ = threading.Thread(target={n}, name='{n}'); {n}_.start(); {n}_.join()",
    "try:\n    raise {e}\nexcept BaseException: traceback.print_exc()",
    "try:\n    raise {e}\nexcept BaseException as error: print(type(error).__name__, error.args)",
    "warnings.warn(repr({0}))",
    "logging.warning('%r', {0})",
    "signal.signal(signal.SIGUSR1, lambda *_: print('signal', {0})); os.kill(os.getpid(), signal.SIGUSR1)",
    "async def {n}():\n    await asyncio.sleep(0)\n    print({0})\n    return {1}\nprint(asyncio.run({n}()))",
    "if fork() == 0: os._exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "if fork() == 0: raise {e}\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "if fork() == 0: os.abort()\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "if fork() == 0: print('child')\nelse: print(os.waitstatus_to_exitcode(os.wait()[1]))",
    "sys.excepthook = lambda *e: print('hook', e[0].__name__, {0})",
    "threading.excepthook = lambda a: print('hook', a.exc_type.__name__, {0})",
    "sys.unraisablehook = lambda u: print('unraisable', u.exc_type.__name__)",
    "sys.stdin.close()",
    "print(repr(sys.stdin.readline()))",
    "gc.disable()",
    "gc.collect()",
    "sys.setrecursionlimit(200)\ndef {n}(): return {n}()\ntry: {n}()\nexcept RecursionError as e: print(e.args)",
    "import dataclasses\n@dataclasses.dataclass\nclass {n}:\n    x: int = 1\nprint({n}())",
    "import pickle\nclass {n}: pass\nprint(type(pickle.loads(pickle.dumps({n}()))) is {n}, {n}.__module__)",
    "print(__name__, __file__, sys.argv, os.getcwd(), __builtins__, __spec__, __annotations__, __doc__)",
    "print(__loader__, __package__, sorted(vars()), sys.modules['__main__'].__dict__ is globals())",
    "print(sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, sys.stdin.encoding, sys.stdin.errors)",
    "print(sys.flags.utf8_mode, sys.getfilesystemencoding(), sys.getrecursionlimit(), sys.getswitchinterval())",
    "exec(compile('1 +', {0}.__class__.__name__, 'exec')) if False else compile('x = 1', 'name', 'exec')",
    "try: exec('x = = 1')\nexcept SyntaxError: traceback.print_exc()",
]

# The last statements of some programs.
ENDS = [
    "raise {e}",
    "raise {e} from {e}",
    "try:\n    raise {e}\nfinally:\n    raise {e}",
    "try:\n    raise {e}\nfinally:\n    print({0})",
    "def {n}():\n    local = open('/output/{n}', 'w'); local.write('local')\n    raise {e}\n{n}()",
    "class {n}:\n    def __del__(self): print('end', {0})\ndef {n}_():\n    local = {n}()\n    raise {e}\n{n}_()",
    "sys.exit({0})",
    "sys.exit([{0}])",
    "exit({0})",
    "os._exit(7)",
    "1 / 0",
    "[].index({0})",
    "import missing_module",
    "undefined_name",
    "x = = 1",
    "def {n}(): return {n}()\n{n}()",
    "exec('1 +')",
    "sys.exit(type('N', (int,), {{'__and__': None}})(5))",
    "sys.exit(type('N', (), {{'__str__': lambda self: {0}}})())",
    "sys.stdout.close()",
    "sys.stderr.close()",
    "sys.stdout = None",
    "sys.stderr = None; raise SystemExit({0})",
    "del sys.stdout",
    "del sys.stderr",
    "os.close(1)",
    "os.close(2)",
    "os.close(0)",
    "sys.stdout = open('/output/{n}', 'w'); print({0})",
    "sys.stdout = io.StringIO(); print({0})",
    "sys.stdout = gzip.GzipFile('/output/{n}', 'w', mtime=0); sys.stdout.write(b'text')",
    "sys.excepthook = None; raise {e}",
    "del sys.excepthook; raise {e}",
    "def {n}(*error): raise {e}\nsys.excepthook = {n}; 1 / 0",
    "threading.Thread(target=lambda: sys.exit({0})).start()",
    "async def {n}(): raise {e}\nasyncio.run({n}())",
    "raise ExceptionGroup('group', [ValueError({0}), KeyError({1})])",
    "sys.modules['__main__'] = None",
    "sys.modules.clear()",
    "globals().clear()",
    "vars().pop('__builtins__')",
    "signal.raise_signal(signal.SIGINT)",
    "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.raise_signal(signal.SIGINT)",
    "sys.exit()",
    "threading.Timer(0.05, print, ({0},)).start()",
]


@st.composite
def _filled(draw: Callable[[Any], Any], forms: list[str]) -> str:
    form = draw(st.sampled_from(forms))
    name = f"{draw(names)}{draw(st.integers(0, 99))}"
    return (
        str(form)
        .replace("{e}", draw(exceptions).replace("{", "{{").replace("}", "}}"))
        .format(draw(literals), draw(literals), n=name)
    )


programs = st.builds(
    lambda blocks, end: IMPORTS + "\n".join([*blocks, *end]) + "\n",
    st.lists(_filled(BLOCKS), max_size=5),
    st.lists(_filled(ENDS), max_size=1),
)
# Of a session: they end no process, and touch no stream.
parts = st.lists(
    st.one_of(
        literals,
        st.builds("{} = {}".format, names, literals),
        st.builds("{}".format, names),
        st.builds("[{0} for {0} in [{1}]]".format, names, literals),
        st.builds("raise {}".format, exceptions),
        st.builds("def {0}(x): return x, {1}\n{0}({1})".format, names, literals),
        st.builds("try: raise {}\nexcept BaseException as {}: print({})".format, exceptions, names, literals),
        st.builds(
            "class {0}:\n    value = {1}\n    def __repr__(self): return repr({1})\n{0}()".format, names, literals
        ),
        st.builds("print({})\n{}".format, literals, literals),
        st.builds("del {}".format, names),
        st.sampled_from(["x = = 1", "_", "", "# comment", "None", "...;", "1;", "'doc'", "__name__", "(", "\t1", " 1"]),
    ),
    min_size=1,
    max_size=5,
)
