# call: @ 0
# call: @ None
# call: @ text
# call: @ list
# call: @ -1
# call: @ 256
"""Ways to end well, or nearly."""
import atexit
import os
import sys

atexit.register(print, "first registered")
atexit.register(lambda: print("last registered", file=sys.stderr))
print("before", flush=True)
how = {"0": 0, "None": None, "text": "tëxt", "list": [1, 2], "-1": -1, "256": 256}[sys.argv[1]]
try:
    sys.exit(how)
except SystemExit as error:
    print(repr(error.code))
raise SystemExit
