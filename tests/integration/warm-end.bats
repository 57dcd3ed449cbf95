#!/usr/bin/env bats
# The end of a restored interpreter: what a program sees of it is what it sees cold, and what nobody sees is left out.
# images: python pandas pandas-bullseye pandas-trixie pandas-forky

load ../lib/warm.bash

setup() {
    begin_test
    use_image python
}

@test "atexit, excepthook, finalisation: order and words" {
    same -c 'import atexit, sys, threading, weakref
atexit.register(print, "first registered"); atexit.register(print, "last registered")
sys.excepthook = lambda *a: print("hook", a[0].__name__)
class Last:
    def __del__(self): print("deleted", sys.is_finalizing())
last = Last()
threading._register_atexit(print, "threads")
weakref.finalize(last, print, "finalized")
raise ValueError'
}

@test "finalizers of preloaded modules run, in the same order" {
    module final.py <<<'import json
kept = []
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone", self.name, json and json.__name__)
def generate():
    try: yield
    finally: print("closed")
loud, other, cycle, generator = Loud("one"), Loud("two"), Loud("cycle"), generate()
cycle.itself = cycle
next(generator)'
    preload final
    same -c 'import final; print("ran")'
    output_has "gone cycle"
    same -c 'import final; final.kept.append(final.Loud("of the program")); own = final.Loud("own"); print("ran")'
}

# Prints how many page faults a preloaded module's container has that ends; the module has much to give back, against
# which those of the runtime count little, with sanitizers too.
faults_of_end_with() {
    module "ends_$1.py" <<<"things = [[number] for number in range(300000)]
$2"
    preload "ends_$1"
    warm -c pass # makes the snapshot
    python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt)' "$RUNTIME" run --bundle bundle box
}

# Things with a finalizer that only gives memory back do not make the process give back all that the snapshot holds.
spares_the_end() {
    use_image "$1"
    local name most faults
    local -A holders=(
        [memory]='import io; kept = io.BytesIO(b"text")' # pandas
        [closed]='kept = open(__file__); kept.close()'   # nltk
    )
    # requests, scipy; before 3.11 it cannot be told.
    if cold -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        holders[generator]='def numbers(): yield 1; yield 2
kept = numbers(); next(kept)'
        holders[tracker]='import multiprocessing.resource_tracker' # scikit-learn
        holders[condition]='kept = (number for number in range(9) if str(number)); next(kept)' # pytz
    fi
    most=$(faults_of_end_with acts 'class Acts:
    def __del__(self): pass
kept = Acts()')
    for name in "${!holders[@]}"; do
        faults=$(faults_of_end_with "$name" "${holders[$name]}")
        echo "$name: $faults faults of $most"
        ((faults * 2 < most))
    done
    # nanobind (duckdb) counts what is left at the end of the process, and complains.
    faults=$(faults_of_end_with nanobind 'class nb_type(type): __module__ = "nanobind"
class Bound(metaclass=nb_type): pass')
    ((faults * 2 > most))
}

@test "the end spares what the snapshot holds, whatever the imports left that has a finalizer which does nothing" {
    spares_the_end python
}

@test "… of another Python" {
    spares_the_end pandas-trixie
}

@test "… of the oldest one" {
    spares_the_end pandas-bullseye
}

@test "… of the newest one" {
    spares_the_end pandas-forky
}

@test "what imports left does something at its end after all: a file that is opened again, a process" {
    module held.py <<<'import multiprocessing.resource_tracker as tracker
file = open(__file__); file.close()'
    preload held
    same -c 'import sys
file = __import__("held").file; file.__init__(sys.stdout.buffer); file.write("still in the buffer"); del file'
    output_is "still in the buffer"
    same -c '__import__("held").tracker.ensure_running(); print("ran")'
    module memory.py <<<'import io
stream = io.BytesIO()
stream.itself = stream # what ends by its count of references is not asked to close'
    preload memory
    same -c 'import os; __import__("memory").stream.close = lambda write=os.write: write(1, b"closed")'
    output_is closed
    # What is asked whether it is closed may raise anything.
    same -c 'import io
class Half:
    readable = writable = seekable = lambda self: False
stream = io.TextIOWrapper(Half()); print("ran")'
}
