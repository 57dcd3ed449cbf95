# call: @
"""Signals: dispositions, masks, handlers, alarms."""
import os
import signal
import time

print({s.name: str(signal.getsignal(s)) for s in sorted(signal.valid_signals()) if isinstance(s, signal.Signals)})
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getitimer(signal.ITIMER_REAL))
print([line for line in open("/proc/self/status") if line.startswith(("Sig", "Threads")) and not line.startswith("SigQ")])
caught = []
signal.signal(signal.SIGALRM, lambda *a: caught.append(a[0]))
signal.setitimer(signal.ITIMER_REAL, 0.01)
while not caught:
    time.sleep(0.001)
print(caught)
signal.signal(signal.SIGUSR1, lambda *a: 1 / 0)
try:
    signal.raise_signal(signal.SIGUSR1)
    time.sleep(1)
except ZeroDivisionError as error:
    print(error)
r, w = os.pipe()
os.close(r)
try:
    os.write(w, b"x")
except BrokenPipeError as error:
    print(error)
