# call: @
# call: -u @
# call: -c @text
"""A second descriptor shows when output reaches the file."""
import os
import sys

print(sys.stdout.buffer, sys.stdout.line_buffering, sys.stderr.line_buffering, flush=True)
r, w = os.pipe()
saved = os.dup(1)
os.dup2(w, 1)
os.set_blocking(r, False)
print("small")


def pending():
    try:
        return len(os.read(r, 1 << 20))
    except BlockingIOError:
        return 0


seen = [pending()]
for size in (4000, 4000, 4000, 9000, 1):
    sys.stdout.write("x" * size)
    seen.append(pending())
sys.stdout.flush()
seen.append(pending())
os.dup2(saved, 1)
print(seen)
sys.stdout.write("at the end")
sys.stderr.write("no line")
os._exit(0) if len(sys.argv) > 1 else None
