# call: @
# call 3.10: -X dev @
# call: -W error @
"""Exceptions in places where they cannot be caught; warnings."""
import sys
import warnings


class Bad:
    def __del__(self):
        raise ValueError("in __del__")


Bad()
if not sys.warnoptions or "error" not in sys.warnoptions:
    warnings.warn("a warning of the user")
    warnings.warn("a deprecation", DeprecationWarning)
    open(__file__)
print([f[:3] for f in warnings.filters])
print(sys.warnoptions, sys._xoptions)
exec("x = 1\nassert x == 1, 'never'")
