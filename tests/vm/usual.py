"""Usual operations of Python programs, which the SELinux domains of config/selinux allow.

They run in a container and in a sandbox of pysbx, so they use only the standard library.
"""

import ctypes
import mmap
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

with tempfile.NamedTemporaryFile() as temporary, socket.socket(socket.AF_UNIX) as listener:
    temporary.write(os.urandom(10))
    listener.bind(temporary.name + ".socket")
threads = [threading.Thread(target=sys.getrecursionlimit) for _ in range(4)]
for thread in threads:
    thread.start()
memory = os.memfd_create("memory")
os.truncate(memory, 4096)
mmap.mmap(memory, 4096)[0] = 1
assert subprocess.check_output(["sh", "-c", "read line; echo $line"], input=b"piped") == b"piped\n"
with multiprocessing.Pool(2) as pool:
    assert pool.map(str, [1, 2]) == ["1", "2"]
ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)()
shutil.disk_usage("/")
os.cpu_count()
os.listdir("/proc")
for path in "/proc/sys/kernel/osrelease", "/proc/meminfo", "/proc/self/status":
    with open(path) as shown:
        assert shown.read()
with open("/dev/null", "w") as null:
    null.write("gone")
