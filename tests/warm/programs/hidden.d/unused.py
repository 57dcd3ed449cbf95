"""A module that the program never imports."""
import atexit
import warnings
import xml.dom.minidom

import package.part
from package import other as other

warnings.simplefilter("error")
atexit.register(print, "the end of unused")
try:
    import missing_everywhere  # noqa: F401
except ImportError:
    pass
