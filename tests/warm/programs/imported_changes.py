# call: @
# call: -c @text
# set: PYTHONPATH=@dir
# set: TEST_DELETED=there
# set: TEST_CHANGED=before
# import: changes
"""Changes of an import to the process remain."""
import gc
import os
import sys

import changes

print({k: v for k, v in os.environ.items() if k.startswith("TEST")}, list(os.environ)[-2:])
sys.stdout.flush()
os.system("env | grep ^TEST_ | sort")
print(changes.stream is sys.stdout, changes.stream.isatty(), sys.path[:2], sys.getrecursionlimit(), gc.get_threshold())
print(changes.environ is os.environ, changes.read, changes.missing)
