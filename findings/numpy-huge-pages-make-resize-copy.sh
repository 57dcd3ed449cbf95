#!/usr/bin/env bash
# numpy 2.3.5, glibc, Linux.
#
# numpy asks for huge pages for the data of an array from 4 MiB on, by madvise(MADV_HUGEPAGE) from the first whole page
# of the data on. The block of malloc(3) begins one page earlier, with its header. So the kernel keeps it as two mappings.
# mremap(2), by which realloc(3) lets such a block grow without a copy, refuses a range of two mappings (EFAULT), and
# glibc allocates a second block and copies. ndarray.resize() of 256 MiB by 4 MiB then needs 516 MiB at its peak.
# With NUMPY_MADVISE_HUGEPAGE=0 it needs 260 MiB, and no byte is copied.
#
# The environment variable and the reason for huge pages are documented; that growing costs twice the memory is not.
#
# This program prints the mappings of the block and what the peak of the resident memory is of the array's size after
# resize(), with and without huge pages, and fails if that changes.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.3.5
cat >"$directory/grow.py" <<'PYTHON'
import resource

import numpy

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
array = numpy.ones(256 << 20, dtype=numpy.uint8)
start, end = array.ctypes.data - 16, array.ctypes.data + array.nbytes
found = 0
for line in open("/proc/self/maps"):
    first, last = (int(one, 16) for one in line.split()[0].split("-"))
    found += first < end and start < last
array.resize(260 << 20, refcheck=False)
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (260 << 10)
print(f"mappings: {found}, peak: {peak:.1f} times the array")
PYTHON
with=$("$directory/venv/bin/python" "$directory/grow.py")
without=$(NUMPY_MADVISE_HUGEPAGE=0 "$directory/venv/bin/python" "$directory/grow.py")
echo "huge pages: $with"
echo "none:       $without"
[[ $with == "mappings: 2, peak: 2.0 times the array" && $without == "mappings: 1, peak: 1.0 times the array" ]]
