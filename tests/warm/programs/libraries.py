# call: @
# call: -c @text
# import: ctypes re
"""The libraries of the process, and the functions of C beneath the program: what the dynamic linker and debuggers see."""
import ctypes
import ctypes.util
import faulthandler
import re
import sys


class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
def show(info, size, data):
    print("loaded", info.contents.name)
    return 0


libc = ctypes.CDLL(None)
libc.backtrace_symbols.restype = ctypes.POINTER(ctypes.c_char_p)
libc.dl_iterate_phdr(show, None)
frames = (ctypes.c_void_p * 500)()
count = libc.backtrace(frames, len(frames))
for frame in libc.backtrace_symbols(frames, count)[:count]:
    print("frame", re.sub(rb"\[.*", b"", frame))
if hasattr(ctypes.util, "dllist"):
    print(ctypes.util.dllist())
if hasattr(faulthandler, "dump_c_stack"):
    sys.stdout.flush()
    faulthandler.dump_c_stack(sys.stdout.fileno())
