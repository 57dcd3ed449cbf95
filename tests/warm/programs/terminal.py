# call: @
# call: -u @
# terminal
# stdin: typed line\n
"""On a terminal."""
import os
import sys

print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdout.line_buffering, sys.stdin.line_buffering, sys.stderr.line_buffering)
print(sys.stdin.buffer, sys.stdout.buffer, sys.stdin.encoding, os.get_terminal_size())
sys.stdout.write("no line yet ")
os.write(1, b"[raw] ")
print("line")
print(repr(sys.stdin.readline()), os.ttyname(0) == os.ttyname(1))
print(repr(input("prompt> ")) if len(sys.argv) > 1 else "")
