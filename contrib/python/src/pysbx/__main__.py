"""`python -m pysbx`: the command pysbx."""

import sys

from pysbx.command import main

if __name__ == "__main__":
    sys.exit(main())
