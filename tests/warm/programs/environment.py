# call: @
# call: -c @text
# set: TEST_LATIN=caf\xe9
# set: TEST_EMPTY=
# set: PYTHONIOENCODING=latin-1:replace
"""The environment, in Python, in C and in children."""
import os
import subprocess
import sys

print(dict(os.environ), list(os.environ) == list(dict(os.environ)))
print({k: v for k, v in os.environb.items() if k.startswith(b"TEST")}, os.environ._data is __import__("posix").environ)
os.environ["TEST_NEW"] = "new"
del os.environ["TEST_EMPTY"]
os.putenv("TEST_PUT", "put")
sys.stdout.flush()
subprocess.run(["/usr/bin/env"])
print(os.getcwd(), os.path.abspath("x"), sys.stdout.encoding, sys.stdout.errors)
print("\N{SNOWMAN}\xe9")
