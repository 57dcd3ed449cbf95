# call: @ é
# call: -X utf8=0 @ é
# set: LC_ALL=C
# set: LANG=
"""Locale and encodings."""
import locale
import sys

print(locale.setlocale(locale.LC_ALL, None), locale.getpreferredencoding(), sys.getfilesystemencoding())
print(sys.stdout.encoding, sys.stdout.errors, sys.stdin.errors, sys.stderr.errors, ascii(sys.argv), sys.flags.utf8_mode)
try:
    print("\xe9\u20ac")
except UnicodeEncodeError as error:
    print(error)
