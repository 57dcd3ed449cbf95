import atexit
import gc
import os
import sys

environ = os.environ
read = os.environ.get("TEST_CHANGED"), sorted(k for k in os.environ if k.startswith("TEST"))
os.environ["TEST_CHANGED"] = "after"
os.environ["TEST_NEW"] = "new"
del os.environ["TEST_DELETED"]
missing = os.path.exists("/no-such-file")
stream = sys.stdout
sys.setrecursionlimit(1234)
gc.set_threshold(701, 11, 12)
atexit.register(lambda: print("exit handler of the module"))
