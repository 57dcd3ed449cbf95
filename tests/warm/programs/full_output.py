# call: @
# exit: 120
"""Buffered output cannot be written at the end."""
import os
import sys

r, w = os.pipe()
os.dup2(w, 1)
os.close(r)
os.close(w)
print("lost")
