# call: @
# call: -c @text
# call: -
# stdin: @text
"""Nothing is beneath the program."""
import faulthandler
import inspect
import sys
import threading
import traceback

print(inspect.stack(), len(sys._current_frames()))
print(sys._getframe(0).f_back, [t.name for t in threading.enumerate()], threading.main_thread())
print(threading.main_thread().ident == threading.get_ident(), threading.main_thread().native_id == threading.get_native_id())
traceback.print_stack()


def depth(n):
    try:
        return depth(n + 1)
    except RecursionError:
        return n


print(depth(0), depth(0))
fault = open("fault", "w+")
faulthandler.dump_traceback(file=fault, all_threads=True)
fault.seek(0)
print(fault.read().split("(most")[1])


class Deep:
    def __repr__(self):
        return repr([self])


try:
    repr(Deep())
except RecursionError as error:
    print(error)
