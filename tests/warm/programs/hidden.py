# call: @
# call: -c @text
# set: PYTHONPATH=@dir
# import: loud unused weakref json
"""A preloaded module has no effect before the program imports it."""
import sys

start = set(sys.modules)
OWN = {"loud", "unused", "package", "package.inner", "package.other", "package.part", "weakref", "json", "xml", "atexit"}
print(sorted(OWN & start), sys.warnoptions)
text = "'\\d'"
eval(text)

import warnings

print([entry[0] for entry in warnings.filters])
warnings.warn("quiet before loud", RuntimeWarning, stacklevel=1)

import package

print(hasattr(package, "inner"), hasattr(package, "part"), sorted(OWN & set(sys.modules)))
with warnings.catch_warnings():
    import loud as first

    print([entry[0] for entry in warnings.filters])
print([entry[0] for entry in warnings.filters])

import loud

print(loud is first, hasattr(package, "inner"), hasattr(package, "part"), sorted(OWN & set(sys.modules)))
warnings.warn("quiet after loud", RuntimeWarning, stacklevel=1)
warnings.warn("heard", RuntimeWarning, stacklevel=1)

import json.decoder
import weakref
from importlib import import_module

print(import_module("package.part").inner is package.inner, import_module(".inner", "package").VALUE)
print(sorted(set(sys.modules) - start), list(sys.modules)[:1], json.decoder is sys.modules["json.decoder"])


class Thing:
    pass


kept = Thing()
weakref.finalize(kept, print, "finalized at the end")
try:
    import missing_everywhere
except ImportError as error:
    print(error, error.__traceback__.tb_next)
del sys.modules["json"]
import json as again

print(again is json, again.loads("[1]"))
