# call: -c "import sys; sys.exit('three\xe9')" x
# call: -c "raise SystemExit([1])"
# call: -c "import os, atexit; atexit.register(print, 'never'); os._exit(1)"
# call: -c "raise type(chr(69), (Exception,), {})"
# call: -c "import sys; sys.excepthook = lambda *a: print('hook', a[0]); 1/0"
# call: -c "import atexit; atexit.register(lambda: 1/0); 1/0"
# exit: 1
