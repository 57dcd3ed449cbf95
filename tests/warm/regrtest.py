#!/usr/bin/env python3
"""Run CPython's own tests in fresh and in restored interpreters, and compare the results test by test.

usage: regrtest.py --bundle BUNDLE [--all] [--timeout SECONDS] [-v] [MODULE...]

BUNDLE's root is one of the images python-testsuite; RUNTIME is the runtime. Without a name a selection runs, with --all
all tests of the image. Tests in known.txt may differ. The exit status is 1 if any other does, or if a module does not
end in time.
"""

import argparse
import fnmatch
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from box import KILLED, Box, Mode

HERE = Path(__file__).parent
WORKERS = 3  # most of these tests wait

# Fast, and about the areas of a restore: start-up, streams, threads, signals, processes, randomness, exits.
SELECTION = """
    test_atexit test_builtin test_codecs test_context test_contextlib test_ctypes test_decimal test_exceptions
    test_file test_float test_fork1 test_gc test_generators test_getpass test_hash test_json test_locale test_math
    test_mmap test_openpty test_os test_pathlib test_pickle test_posix test_pty test_random test_re test_resource
    test_runpy test_script_helper test_secrets test_select test_site test_ssl test_strtod test_struct test_sys
    test_syslog test_tempfile test_thread test_threadsignals test_time test_traceback test_unicode test_uuid
    test_wait4 test_warnings test_zipapp
""".split()

# Excluded from --all: name, reason.
LEFT_OUT = {
    "test_asyncio": "an hour of sleeping; test_asyncgen and others cover the interpreter's part",
    "test_bigmem": "needs gigabytes",
    "test_idle": "needs a display",
    "test_tkinter": "needs a display",
    "test_ttk": "needs a display",
    "test_turtle": "needs a display",
    "test_zipfile64": "needs gigabytes",
    "test_peg_generator": "needs a compiler",
    "test_tools": "needs the source tree",
}


@dataclass
class Result:
    """The results of one module in one interpreter."""

    code: int
    tests: dict[str, str] = field(default_factory=dict)
    """Outcome by name of the test."""
    text: str = ""
    """What was printed, its end."""


@dataclass(frozen=True)
class Known:
    """A line of known.txt: a difference with a known reason."""

    module: str
    test: str
    reason: str


def read_known(path: Path) -> list[Known]:
    """Read the list; raise ValueError for a line without three fields."""
    known = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            module, test, reason = (part.strip() for part in line.split("|"))
            known.append(Known(module, test, reason))
    return known


def read_results(path: Path) -> dict[str, str]:
    """Return the outcomes of a JUnit file by test: passed, or the reason of the failure."""
    outcomes: dict[str, str] = {}
    if not path.exists():
        return outcomes
    for case in ET.parse(path).iter("testcase"):
        name = case.get("name", "")
        words = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[name] = words[0] if words else case.get("result") or "passed"
    return outcomes


def run(bundle: Path, scratch: Path, mode: Mode, module: str, timeout: int) -> Result:
    """Run one module in a new container, for at most this many seconds."""
    box = Box(bundle, scratch)
    out = box.folder / "out"
    out.mkdir()
    out.chmod(0o777)
    box.mount(out, "/out", "rw")
    box.temporary("/tmp")
    # Without a name for the loopback test_logging waits forever, and tests of servers do not run.
    hosts = box.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")
    hosts.chmod(0o644)
    box.mount(hosts, "/etc/hosts", "ro")
    box.config["process"]["cwd"] = "/tmp"
    arguments = ["-m", "test", "-v", "--junit-xml", "/out/results.xml", "--tempdir", "/tmp", module]
    # A locale that the interpreter does not coerce.
    done = box.run(mode, arguments, environment={"HOME": "/tmp", "LC_ALL": "C.UTF-8"}, timeout=timeout)
    result = Result(done.code, read_results(out / "results.xml"))
    result.text = (done.stdout + done.stderr).decode(errors="replace")[-2000:]
    shutil.rmtree(box.folder, ignore_errors=True)
    return result


def differences(cold: Result, warm: Result) -> dict[str, str]:
    """Return the differences by test. The exit code counts if no test explains it, or if nothing can be compared."""
    found = {
        test: f"{cold.tests.get(test, 'not run')} cold, {warm.tests.get(test, 'not run')} warm"
        for test in sorted(cold.tests.keys() | warm.tests.keys())
        if cold.tests.get(test) != warm.tests.get(test)
    }
    if cold.code == KILLED:
        found["exit code"] = "did not end in time, cold"
    elif not found and cold.code != warm.code:
        found["exit code"] = f"{cold.code} cold, {warm.code} warm: {warm.text}"
    return found


def compare(bundle: Path, scratch: Path, module: str, timeout: int) -> tuple[Result, dict[str, str]]:
    """Return the fresh interpreter's result and the differences, after at most three tries, as some tests are flaky."""
    found: dict[str, str] = {}
    for attempt in range(3):
        cold = run(bundle, scratch, "cold", module, timeout)
        warm = run(bundle, scratch, "warm", module, timeout)
        now = differences(cold, warm)
        found = now if attempt == 0 else {test: text for test, text in now.items() if test in found}
        if not found:
            break
    return cold, found


def modules_of(bundle: Path, scratch: Path) -> list[str]:
    """Return the names of all test modules of the image."""
    program = "import os, test; print(*sorted({n.split('.')[0] for n in os.listdir(test.__path__[0])}))"
    names = Box(bundle, scratch).run("cold", ["-c", program]).stdout.decode().split()
    return [name for name in names if name.startswith("test_") and name not in LEFT_OUT]


def main() -> int:
    """Run, print what differs, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("-v", dest="verbose", action="store_true")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    known = read_known(HERE / "known.txt")
    tests = different = explained = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        scratch = Path(folder)
        scratch.chmod(0o755)
        present = modules_of(options.bundle, scratch)
        modules = options.modules or (present if options.all else [m for m in SELECTION if m in present])
        results = pool.map(lambda module: compare(options.bundle, scratch, module, options.timeout), modules)
        for module, (cold, found) in zip(modules, results, strict=True):
            tests += len(cold.tests)
            if options.verbose:
                print(f"{module}: exit code {cold.code} cold, {len(cold.tests)} tests", flush=True)
            for test, text in found.items():
                reasons = [k.reason for k in known if k.module == module and fnmatch.fnmatch(test, k.test)]
                explained += bool(reasons)
                different += not reasons
                print(f"{module}: {test}: {text}" + (f" (known: {reasons[0]})" if reasons else ""), flush=True)
    print(f"{len(modules)} modules, {tests} tests, {different} different, {explained} different for a known reason")
    return 1 if different or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
