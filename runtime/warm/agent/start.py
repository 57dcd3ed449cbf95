"""Run bootstrap.py: the text of python3 FLAGS -c TEXT AGENT REPORT NAME...

Behind the agent, its file has the other texts of this directory, and their byte code for some versions of Python
(texts). This text is short, because every probe and builder compiles it. It imports only modules that every interpreter
has loaded.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False  # an import of typing would remain in sys.modules
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

AGENT = sys.argv[1]
INDEX = 8192  # bytes at the end of the file: a line for each piece, with its version, part, file name and size


def load(part: str) -> "Iterator[CodeType]":
    """Yield the code of a part of the agent, piece by piece, because the process may have little memory.

    Without byte code for this version of Python, compile the texts.
    """
    version = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER.hex()
    file = posix.open(AGENT, posix.O_RDONLY)
    end = posix.lseek(file, 0, 2) - INDEX
    pieces = [line.split() for line in posix.pread(file, INDEX, end).decode().split("\n") if line]
    if version not in (piece[0] for piece in pieces):
        version = "text"
    end -= sum(int(piece[3]) for piece in pieces)
    for kind, of, name, size in pieces:
        if (kind, of) == (version, part):
            content = posix.pread(file, int(size), end)
            yield compile(content, name, "exec", 0, True) if kind == "text" else marshal.loads(content)
        end += int(size)
    posix.close(file)


try:
    pieces = list(load("bootstrap"))
except BaseException as error:
    posix.write(int(sys.argv[2]), f"x{error!r}\0".encode())
    posix._exit(94)
exec(pieces.pop(), globals())
