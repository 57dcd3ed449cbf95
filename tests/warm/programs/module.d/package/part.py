import sys
print(__name__, __package__, __file__, __spec__, sys.argv, sys.path[0], vars().keys(), __loader__)

