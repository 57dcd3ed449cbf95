"""`python -m pysbx`: the command line, as the program pysbx has it."""

from pysbx.command import program

if __name__ == "__main__":
    program()
