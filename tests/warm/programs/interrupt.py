# call: @
# call: -c @text
# call: -m interrupt
# exit: -2
"""An interrupt without a handler ends the process by the signal, after exit handlers."""
import atexit
import os
import signal

atexit.register(print, "at exit")
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGTERM))
os.kill(os.getpid(), signal.SIGINT)
for _ in range(10**6):
    pass
