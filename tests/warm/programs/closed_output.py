# call: @
# call: -u @
# closed: 1
"""No standard output."""
import sys

print("lost", sys.stdout, sys.__stdout__, file=sys.stderr)
print("lost")
