# call: @
# call: -m main_module
# call: -c @text
# import: pickle typing dataclasses
"""__main__, as pickle, typing and dataclasses see it."""
import dataclasses
import pickle
import sys
import typing
import __main__

print(__main__ is sys.modules["__main__"], vars(__main__) is globals(), __main__)


@dataclasses.dataclass
class Point:
    x: "int"
    y: "typing.List[Point]"


print(typing.get_type_hints(Point), pickle.loads(pickle.dumps(Point(1, []))), Point.__module__)
print(pickle.dumps(Point)[:40], __annotations__ if sys.version_info < (3, 14) else {})
print([k for k in vars() if k.startswith("__")], __doc__ is None)
print(getattr(__main__, "__annotations__", {}), typing.get_type_hints(__main__))
