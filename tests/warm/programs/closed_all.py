# call: @
# closed: 0 1 2
# exit: 7
"""No streams at all."""
import sys

assert (sys.stdin, sys.stdout, sys.stderr) == (None, None, None)
print("lost")
sys.exit(7)
