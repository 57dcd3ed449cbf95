# call: @
# import: ctypes
"""C calls back into the interpreter, which must find its thread."""
import ctypes
import ctypes.util
import threading

compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
libc = ctypes.CDLL(None)
numbers = (ctypes.c_int * 5)(3, 1, 4, 1, 5)
libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), compare(lambda a, b: a[0] - b[0]))
print(list(numbers), ctypes.pythonapi.PyGILState_Check(), threading.active_count())
libc.getenv.restype = ctypes.c_char_p
print(libc.getenv(b"HOME"), libc.getenv(b"WAKE_TEMPLATE"))
