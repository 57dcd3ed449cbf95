# call: @
# call: -c @text
# import: textwrap json
"""A program removes its own module: objects end when nothing refers to them any more."""

import sys


class Part:
    def __init__(self, name):
        self.name = name

    def __del__(self, tell=print):
        tell("end of", self.name)


first, second = Part("the first"), Part("the second")
import textwrap

print(list(sys.modules).index("__main__"), sys.getrefcount(sys.modules["__main__"]), textwrap.dedent("  last"))
sys.modules["__main__"] = None
