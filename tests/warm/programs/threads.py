# call: @
# call: -c @text
"""Threads, at work and at the end."""
import concurrent.futures
import threading
import time

local = threading.local()
local.x = 1
lock, seen = threading.RLock(), []


def work(n):
    with lock:
        seen.append((n, hasattr(local, "x"), threading.current_thread() is threading.main_thread()))


threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(seen), threading.active_count(), threading.main_thread().is_alive(), threading.main_thread().daemon)
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    print(list(pool.map(lambda n: n * n, range(5))))
time.pthread_getcpuclockid(threading.get_ident())
done = threading.Event()
threading._register_atexit(lambda: (print("threading exit"), done.set()))
threading.Thread(target=lambda: (done.wait(), print("waited for"))).start()
threading.Thread(target=lambda: time.sleep(100), daemon=True).start()


def bad():
    raise ValueError("in a thread")


t = threading.Thread(target=bad, name="bad")
t.start()
t.join()
