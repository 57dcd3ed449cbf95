# call: @
# call: -c @text
# import: logging uuid tempfile random ssl multiprocessing.synchronize threading logging.handlers
"""Preloaded modules are as fresh as imported ones."""
import logging
import multiprocessing.process
import os
import random
import ssl
import sys
import tempfile
import threading
import time
import uuid

now = time.time()
start = logging._startTime
print(abs(now - (start / 1e9 if start > 1e12 else start)) < 5, uuid._node, tempfile._name_sequence, tempfile.tempdir)
print(len(ssl.RAND_bytes(8)), len(multiprocessing.process.current_process().authkey), threading.active_count())
logging.warning("to standard error")
print(logging.lastResort.stream is sys.stderr, logging.getLogger().handlers[0].stream is sys.stderr)
print(os.environ["HOME"], list(sys.modules).index("sys"), "gc" in sys.modules, "agent" in sys.modules, "_imp" in sys.modules)
