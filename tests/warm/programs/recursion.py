# call: @
# call: -c @text
# import: json re
"""Deep recursion in Python and in C."""
import json
import re
import sys

sys.setrecursionlimit(20000)


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


print(deep(15000))
nested = []
for _ in range(500):
    nested = [nested]
print(len(json.dumps(nested)), len(repr(nested)), bool(re.match("(a|b)*c", "ab" * 5000 + "c")))
