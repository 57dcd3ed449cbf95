"""The program that runs inside a sandbox, where its name is pysbx_inside. The host imports only wire from it.

Code of the user shares the process with it, so nothing it says is believed by the host.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 (a virtualenv or an image may have any Python)
    sys.exit("Python {}.{} is too old: a sandbox needs 3.10 or later".format(*sys.version_info))

# The modules that python3 imports before a program: the worker, which is in here, has imported none yet.
STARTED = frozenset(sys.modules)
