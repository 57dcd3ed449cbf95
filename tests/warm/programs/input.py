# call: @
# call: -u @
# stdin: one line, no newline
"""Standard input."""
import os
import sys

print(sys.stdin.read(3), sys.stdin.buffer.peek(2)[:2], repr(sys.stdin.readline()), repr(sys.stdin.read()), os.read(0, 1))
