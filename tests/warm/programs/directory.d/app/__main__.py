import sys
print(__name__, __package__, __file__, __spec__, sys.argv, sys.path[0], __loader__.__class__, list(vars()))
