"""A module with effects on the interpreter."""
import atexit
import warnings

import package.inner

warnings.filterwarnings("ignore", message="quiet")
warnings.simplefilter("error", BytesWarning, append=True)
atexit.register(print, "the end of loud", package.inner.VALUE)
