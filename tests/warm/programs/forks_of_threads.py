# call: @
# call: -c @text
# import: threading
"""The child of a fork has one thread, and locks that no thread holds."""
import os
import threading
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # since 3.12 fork() warns of threads, and says its process id
lock, hook = threading._active_limbo_lock, threading._after_fork
print(hook.__code__.co_name, hook.__code__.co_filename == threading.__file__, hook.__defaults__)
done = threading.Event()
other = threading.Thread(target=done.wait, name="other")
other.start()
with lock:
    child = os.fork()
    if child == 0:
        main = threading.main_thread()
        print([t.name for t in threading.enumerate()], threading.active_count(), other.is_alive(), main.is_alive())
        print(main.ident == threading.get_ident(), main.native_id == threading.get_native_id() == os.getpid())
        print(threading._active_limbo_lock is lock, threading._active_limbo_lock.acquire(timeout=1), flush=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
other.join()
