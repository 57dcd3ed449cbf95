#!/usr/bin/env python3
"""Run the tests of a package, or of CPython, in fresh and in restored interpreters, and compare them test by test.

usage: packages.py --bundle BUNDLE --site DIRECTORY [--seconds SECONDS] PACKAGE

PACKAGE is numpy, pandas or scipy; DIRECTORY has it (tests/setup/science). It is preloaded in the restored interpreters.
For CPython it is "test" (tests/setup/cpython-tests), and modules of the standard library are preloaded.
Its parts run one after the other until so many seconds (default: 300) have passed. RUNTIME is the runtime. The exit
status is 1 if a test has another result, or a part does not come to its end.
"""

import argparse
import collections
import re
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from box import Box, Mode

# A part that ran for so long waits for something.
PATIENCE_S = 3600
PARTS = {
    "numpy": "linalg lib ma _core fft polynomial random".split(),
    "pandas": "tests.dtypes tests.indexing tests.series tests.groupby tests.frame".split(),
    "scipy": "fft interpolate linalg ndimage special sparse optimize".split(),
    # Groups of test modules: the language, numbers, text, data, the system.
    "test": [
        "test_grammar test_syntax test_scope test_generators test_coroutines test_asyncgen test_contextlib test_descr "
        "test_dataclasses test_enum test_exceptions test_functools test_itertools test_patma test_super test_typing",
        "test_int test_long test_float test_complex test_decimal test_fractions test_math test_cmath test_statistics "
        "test_random test_numeric_tower",
        "test_unicode test_bytes test_re test_string test_format test_fstring test_textwrap test_codecs test_struct "
        "test_base64 test_binascii test_unicodedata",
        "test_dict test_list test_set test_tuple test_deque test_heapq test_bisect test_collections test_array "
        "test_memoryview test_weakref test_gc test_copy test_pickle test_json test_csv test_zlib "
        "test_gzip test_bz2 test_lzma test_zipfile test_tarfile test_hashlib test_hmac test_datetime test_zoneinfo "
        "test_email",
        "test_os test_posix test_io test_tempfile test_pathlib test_shutil test_glob test_subprocess test_threading "
        "test_queue test_select test_selectors test_asyncio test_logging test_time test_argparse test_ast test_inspect "
        "test_import test_importlib test_traceback test_warnings test_unittest test_atexit test_sys test_site",
    ],
}
# Modules that are preloaded, if the package is not.
STANDARD = (
    "asyncio,collections,csv,dataclasses,datetime,decimal,email,enum,functools,json,logging,pickle,random,re,sqlite3"
)
PRELOAD = {"test": f"{STANDARD},ssl,statistics,subprocess,tempfile,threading,typing,unittest,zipfile"}
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# Results of pytest: failed tests, no tests.
ENDED = (0, 1)
Outcomes = dict[str, str]


def read_outcomes(path: Path) -> Outcomes:
    """Return the outcome of each test: passed, failure, error or skipped. Tests of the same name are numbered."""
    found: Outcomes = {}
    seen: collections.Counter[str] = collections.Counter()
    for case in ET.parse(path).iter("testcase"):
        name = ADDRESS.sub("0x", f"{case.get('classname')}::{case.get('name')}")
        seen[name] += 1
        words = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[f"{name} ({seen[name]})" if seen[name] > 1 else name] = words[0] if words else "passed"
    return found


class Package:
    """A package and its interpreters."""

    def __init__(self, name: str, bundle: Path, site: Path, scratch: Path) -> None:
        """Store where things are."""
        self.name, self.bundle, self.site, self.scratch = name, bundle, site, scratch

    def run(self, mode: Mode, part: str) -> tuple[Outcomes, str]:
        """Run a part in a new container. Return the outcomes, and a text if it did not come to its end."""
        box = Box(self.bundle, self.scratch)
        out = box.folder / "out"
        out.mkdir()
        out.chmod(0o777)
        box.mount(out, "/out", "rw")
        box.mount(self.site, "/site", "ro")
        box.temporary("/tmp")
        box.config["process"]["cwd"] = "/tmp"
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-seed=0"]
        # Some files of tests need programs that the image has not.
        arguments += ["--continue-on-collection-errors"]
        arguments += ["--junit-xml", "/out/results.xml", "--pyargs", *(f"{self.name}.{one}" for one in part.split())]
        variables = {"HOME": "/tmp", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/site", "OPENBLAS_NUM_THREADS": "1"}
        preload = PRELOAD.get(self.name, self.name) if mode == "warm" else ""
        done = box.run(mode, arguments, environment=variables, preload=preload, timeout=PATIENCE_S)
        results = out / "results.xml"
        ended = done.code in ENDED and results.exists()
        outcomes = read_outcomes(results) if ended else {}
        shutil.rmtree(box.folder, ignore_errors=True)
        text = (done.stdout + done.stderr).decode(errors="replace")
        return outcomes, "" if ended else f"exit code {done.code}: {text[-2000:]}"

    def compare(self, part: str) -> tuple[Outcomes, dict[str, str]]:
        """Return the outcomes of a fresh interpreter, and the differences, after at most three tries."""
        found: dict[str, str] = {}
        for attempt in range(3):
            with ThreadPoolExecutor(2) as pool:
                (cold, error), (warm, other_error) = pool.map(lambda mode: self.run(mode, part), ("cold", "warm"))
            if error or other_error:
                return cold, {"its end": f"cold: {error or 'as usual'}; warm: {other_error or 'as usual'}"}
            now = {
                test: f"{cold.get(test, 'not run')} cold, {warm.get(test, 'not run')} warm"
                for test in sorted(cold.keys() | warm.keys())
                if cold.get(test) != warm.get(test)
            }
            found = now if attempt == 0 else {test: text for test, text in now.items() if test in found}
            if not found:
                break
        return cold, found


def main() -> int:
    """Run, print what differs, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("package", choices=sorted(PARTS))
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    different, parts, end = 0, 0, time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        package = Package(options.package, options.bundle, options.site.resolve(), Path(scratch))
        for part in PARTS[options.package]:
            if time.monotonic() >= end:
                break
            began = time.monotonic()
            cold, found = package.compare(part)
            counts += collections.Counter(cold.values())
            different += len(found)
            parts += 1
            print(f"# note: {options.package}.{part.partition(' ')[0]}: {len(cold)} tests, {len(found)} different, "
                  f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
            for test, text in list(found.items())[:20]:
                print(f"# note: {test}: {text}", flush=True)
    figures = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    total = f"{parts} parts, {sum(counts.values())} tests ({figures})"
    print(f"# note: {options.package}: {total}, {different} different", flush=True)
    return 1 if different or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
