# call: @
# call: -c @text
# call: -
# stdin: @text
# import: json decimal
"""Objects that are destroyed at the end, and their order."""
import atexit
import gc
import tempfile
import weakref


class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("del", self.name)


_first = Noisy("underscore")
plain = Noisy("plain")
cycle = Noisy("cycle")
cycle.self = cycle


def function_with_globals(default=Noisy("default")):
    return plain


def generator():
    try:
        yield 1
    finally:
        print("generator closed")


suspended = generator()
next(suspended)
weakref.finalize(plain, print, "finalized")
atexit.register(print, "at exit", gc.isenabled())
Noisy.kept = Noisy("class attribute")
directory = tempfile.TemporaryDirectory()
gc.collect()
lost = Noisy("lost in a cycle")
lost.self = lost
del lost
print(gc.collect() > 0)
