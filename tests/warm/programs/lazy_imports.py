# call: @
# call: -c @text
# call: -X lazy_imports=all @
# import: json xml.sax
# since: 3.15
"""Lazy imports (PEP 810) of preloaded modules and of others, and submodules that packages import lazily themselves."""
import sys

# The text is no syntax of older Pythons, which check it too.
names = {}
exec("lazy from json import dumps\nlazy from xml import sax\nlazy from xml.dom import minidom", names)
LAZY = "json", "xml.sax", "xml.dom.minidom"
print([name in sys.modules for name in LAZY], [name in sys.lazy_modules for name in LAZY])
exec("print(dumps(1), sax.__name__, minidom.Node.__name__)", names)
print([name in sys.modules for name in LAZY], [name in sys.lazy_modules for name in LAZY])

from concurrent.futures import InterpreterPoolExecutor, thread

print(InterpreterPoolExecutor.__name__, thread.__name__)
print(sorted(sys.lazy_modules))
