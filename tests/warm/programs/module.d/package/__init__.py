import sys
print("init", sys.argv, __name__)
