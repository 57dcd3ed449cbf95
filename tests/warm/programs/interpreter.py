# call: @ a "b c"
# call: -c @text a -b
# call: -I @
# call: -I -c @text x
# call: -s -E -B @
# call: -S @
# call: -O -W error -X utf8 @ -- x
# call: -u -q @
# call: -X dev -W error @
# call: -W ignore::DeprecationWarning -b -c @text
# call: -
# call: - x y
# call:
# stdin: @text
"""The description of the interpreter by itself."""
import sys

for name in ("argv", "executable", "path", "flags", "warnoptions", "_xoptions", "prefix", "exec_prefix", "base_prefix",
             "meta_path", "path_hooks", "dont_write_bytecode", "pycache_prefix", "platlibdir", "byteorder", "hexversion",
             "implementation", "version", "float_repr_style", "thread_info", "int_info", "getrecursionlimit", "ps1"):
    print(name, getattr(sys, name, "-"))
print("orig_argv", getattr(sys, "orig_argv", "-"))
print(sorted(vars(sys)), {k: v for k, v in vars(sys).items() if type(v) in (bool, float, int, str, tuple)})
print(sys.getallocatedblocks() > 0, sys.is_finalizing(), sys.getdlopenflags())
print(list(sys.modules))
print(list(sys.path_importer_cache))
print({k: v for k, v in vars().items() if k != "sys"})
print(type(sys.modules["__main__"]), sys.modules["__main__"].__dict__ is globals())
for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
    buffer = stream.buffer
    raw = getattr(buffer, "raw", buffer)
    print(stream, buffer, raw, stream.line_buffering, stream.write_through, stream.newlines, stream.errors, stream.mode)
    print(vars(stream), vars(buffer), vars(raw), raw.closefd, raw.seekable(), stream.isatty(), raw._blksize)
print(sys.stdin is sys.__stdin__, sys.getrecursionlimit(), sys.getswitchinterval(), sys.getfilesystemencoding())
print(sys.exc_info(), hasattr(sys, "last_value"), sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile())
import gc

print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.garbage)
