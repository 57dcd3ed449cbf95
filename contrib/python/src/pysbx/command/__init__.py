"""The command pysbx: options in, one call of the package, its outcome out."""

from pysbx.command.main import main, program

__all__ = ["main", "program"]
