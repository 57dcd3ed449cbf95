#!/usr/bin/env bats
# The memory of a restored process behaves as that of a process which has imported the modules itself. See madvise(2),
# mremap(2), mprotect(2), mlock(2), fork(2), ptrace(2), core(5). The page inside/warm-start.md has the table.
# images: python pandas pandas-forky python-next-forky
# prepare: tests/setup/allocators
# once: memory is restored in the same way in both modes

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "memory of an import: each call has the result, the signal and the content of a cold start" {
    module memory_kept.py <"$TESTS/warm/memory_kept.py"
    module memory_calls.py <"$TESTS/warm/memory_calls.py"
    preload memory_kept
    same /modules/memory_calls.py
    output_has "mapping: MADV_DONTNEED 0 0 5a*1 00*2 5a*1" "malloc: mremap 32 to 4096, 1 moved 0"
}

@test "memory of an import grows: lists, dictionaries, arrays, bytes, mappings" {
    module memory_kept.py <"$TESTS/warm/memory_kept.py"
    preload memory_kept
    same -c 'from memory_kept import *
LIST.extend(range(3000000)); print(len(LIST), LIST[300000 - 1], LIST[-1])
DICT.update(dict.fromkeys(range(300000))); print(len(DICT))
ARRAY.extend(range(1000000)); print(len(ARRAY), ARRAY[299999], ARRAY[-1])
BYTES.extend(bytes(30 << 20)); print(len(BYTES), BYTES.count(0))
PRIVATE.resize(1 << 17); print(set(PRIVATE[1 << 16:]))
PRIVATE.resize(1 << 26); print(set(PRIVATE[1 << 17:]), PRIVATE[:4])'
    output_has "1300000 299999 999999"
}

# TEST_STRESS_SEC: seconds of CPU time; `make check-long` takes ten minutes, with pandas.
@test "lists, arrays, data frames, blocks and mappings of imports change at random, and keep their content" {
    [[ -z ${TEST_STRESS_SEC:-} ]] || use_image pandas
    module memory_state.py <"$TESTS/warm/memory_stress.py"
    preload memory_state
    expect 0 warm -c pass
    prints "changes: True" warm -c "import memory_state
print('changes:', memory_state.stress(${TEST_STRESS_SEC:-1}, ${TEST_STRESS_SEED:-1}) > 10)"
}

# An allocator that takes memory back with MADV_DONTNEED or MADV_FREE gives it out as zeros later.
@test "jemalloc, mimalloc and tcmalloc in place of malloc: memory of zeros is zero" {
    allocators=$("$TESTS/setup/allocators")
    [[ -e $allocators/jemalloc.so ]] || skip "the allocators come from packages of Debian"
    use_image pandas
    configure 'mount("/allocators", arguments[0])' "$allocators"
    for allocator in jemalloc mimalloc tcmalloc; do
        environment "LD_PRELOAD=/allocators/$allocator.so"
        preload numpy
        same -c 'import numpy, os, time
wrong, kept, end = 0, [], time.process_time() + 0.5
while time.process_time() < end:
    for size in 300, 3000, 9000, 30000, 300000:
        zeros = numpy.zeros(size)
        wrong += bool(numpy.count_nonzero(zeros)) + bytes(size).count(1)
        zeros[:] = 1.5
        kept.append(zeros)
    if len(kept) > 60: kept.clear()
print(wrong, os.environ["LD_PRELOAD"] in open("/proc/self/maps").read())'
        output_has "0 True"
    done
}

@test "the part of the stack that an import has used, and left again, is not restored" {
    module deep.py <<'DEEP'
import sys
nested, usual = [], sys.getrecursionlimit()
for _ in range(10000):
    nested = [nested]
sys.setrecursionlimit(20000)
repr(nested)
sys.setrecursionlimit(usual)
DEEP
    preload deep
    local program='import deep, re; print(len(repr([[]])))
used = int(re.search(r"\[stack\]\n(?:.*\n)*?Rss: +(\d+)", open("/proc/self/smaps").read())[1])
print("large" if used > 800 else "small" if used < 200 else used)'
    expect 0 cold -c "$program"
    output_is $'4\nlarge'
    expect 0 warm -c "$program"
    output_is $'4\nsmall'
}

mapped_are_known() {
    use_image "$1"
    module memory_kept.py <"$TESTS/warm/memory_kept.py"
    module mapped.py <"$TESTS/warm/memory_mapped.py"
    preload pandas,memory_kept
    expect 0 warm /modules/mapped.py
    # A private mapping of a file is in a core dump if one of its pages was written to.
    output_has "core dumps have all of it: True
the heap is mapped: True
mappings and blocks that programs may give away: none
the rest is arenas: True"
    # Where there can be none, no page is copied for it.
    configure 'process["rlimits"] = [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}]'
    expect 0 warm /modules/mapped.py
    output_has "core dumps have all of it: False"
}

@test "only the heap, arenas of the interpreter and data of libraries are mapped from the snapshot" {
    mapped_are_known pandas
}

@test "only they are mapped, Debian 14 (glibc 2.43)" {
    mapped_are_known pandas-forky
}

@test "a large dictionary of an import is mapped: no process has a copy of its table" {
    preload_module table <<<'TABLE = {str(number): number for number in range(300000)}'
    expect 0 warm -c 'import table, re
print(re.search(r"Anonymous: +(\d+) kB", open("/proc/self/smaps_rollup").read())[1])
table.TABLE.update(dict.fromkeys(range(300000))); print(len(table.TABLE), table.TABLE["299999"])'
    ((lines[0] < 6000)) # KiB: the table has 8 MiB
    [[ ${lines[1]} == "600000 299999" ]]
}

@test "memory of the start: what sitecustomize has mapped is copied, and what it has let an interpreter allocate" {
    module memory_kept.py <"$TESTS/warm/memory_kept.py"
    module memory_calls.py <"$TESTS/warm/memory_calls.py"
    module sitecustomize.py <<<'import memory_kept'
    preload json
    same /modules/memory_calls.py mapping buffer # of each kind one: the calls are the same as for an import
    output_has "mapping: MADV_DONTNEED 0 0 5a*1 00*2 5a*1"
}

@test "a heap that is not of glibc's blocks alone is copied: a library has moved its end" {
    preload_module moved <<<'import ctypes
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
own = libc.sbrk(1 << 20) + 4095 & ~4095
ctypes.memset(own, 0x5a, 1 << 19)
later = [bytearray(1000) for _ in range(1000)] # glibc goes on behind it'
    same -c 'import ctypes
from moved import libc, own
print(libc.madvise(ctypes.c_void_p(own), ctypes.c_size_t(4096), 4), ctypes.string_at(own, 1), ctypes.string_at(own + 4096, 1))'
    output_has "0 b'\x00' b'Z'"
}

@test "PYTHONMALLOC=mimalloc: memory of another allocator of the interpreter is copied" {
    use_image python-next-forky
    environment PYTHONMALLOC=mimalloc
    preload_module kept <<<'KEPT = [bytes(range(200)) for _ in range(10000)]'
    same -c 'import kept
for line in open("/proc/self/maps"):
    start, end = (int(word, 16) for word in line.split()[0].split("-"))
    if start <= id(kept.KEPT[5000]) < end: print("of inode", line.split()[4])'
    output_has "of inode 0"
}

@test "malloc_trim gives back pages of the heap that imports have freed, and calloc returns zeros" {
    preload_module freed <<<'import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.calloc.restype = ctypes.c_void_p
blocks = [libc.malloc(100000) for _ in range(50)]
for block in blocks: ctypes.memset(block, 0x5a, 100000)
for block in blocks[:-1]: libc.free(ctypes.c_void_p(block))'
    same -c 'import ctypes, freed
print(freed.libc.malloc_trim(0))
blocks = [freed.libc.calloc(1, 100000) for _ in range(50)]
print({bytes(ctypes.string_at(block, 100000)).count(0) for block in blocks}, ctypes.string_at(freed.blocks[-1], 4))'
    output_has "{100000}"
}

@test "imports that make an interpreter are cold: fork(2) ends it, and what it has" {
    preload_module made <<<'try: import _interpreters as interpreters # since 3.13
except ImportError: import _xxsubinterpreters as interpreters
number = interpreters.create()
interpreters.run_string(number, "kept = [bytes(300) for _ in range(20000)]")'
    expect 1 warm -c pass
    prints "20000" either -c 'import made; made.interpreters.run_string(made.number, "print(len(kept), flush=True)")'
}

@test "the snapshot is removed while the program runs: its memory stays" {
    module memory_kept.py <"$TESTS/warm/memory_kept.py"
    preload memory_kept
    expect 0 warm -c pass
    program require 'import time, memory_kept
print("begun", flush=True); time.sleep(1)
print(sum(memory_kept.LIST), memory_kept.BYTES.count(0))'
    start_box
    wait_for grep -q begun out
    runtime warm prune --all >/dev/null
    wait_for grep -q "44999850000 10485760" out
}
