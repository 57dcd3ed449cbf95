# call: @dir/app a b
# call: app
# call: ./app/
# call: app.zip x
# call: link.py
# call: ./link.py
# call: app/../directory.py
"""A directory, a zip file, a link as the program."""
import sys
print(__file__, sys.path[0], sys.argv, __cached__ if "__cached__" in vars() else "-")
