/* Services for the Python code of the agent, which cannot do this itself, or not in every version. */
#pragma once

#include "warm/agent/python_abi.h"

/* memory_file(): return the descriptor of a file in memory, or a negative errno. In a container that is
 * refused memfd_create(2) it is a file without a name in /dev/shm. Portable builds of Python lack
 * os.memfd_create, because their C library is older than the call (METH_VARARGS). */
PyObject *memory_file(PyObject *self, PyObject *args);

/* first_environment(): return the variables that execve(2) gave to the process, each with a NUL at its end.
 * The kernel puts them between the arguments and the name of the program. `environ` may have changed since,
 * and /proc is not always mounted (METH_VARARGS). */
PyObject *first_environment(PyObject *self, PyObject *args);

/* environment(): return the present variables of the C library, each with a NUL at its end (METH_VARARGS). */
PyObject *environment(PyObject *self, PyObject *args);

/* thaw(object): undo gc.freeze() for this object alone, so that the collector sees it again (METH_O). */
PyObject *thaw(PyObject *self, PyObject *object);

/* swap(one, other): exchange the contents of two dictionaries, and write to nothing else (METH_VARARGS). */
PyObject *swap(PyObject *self, PyObject *args);

/* keep(object): let the object live until the process ends (METH_O). */
PyObject *keep(PyObject *self, PyObject *object);

/* words_of(capsule): return the state of numpy's generator as bytes, and remember its place (METH_O). */
PyObject *words_of(PyObject *self, PyObject *capsule);

/* fill_words(): fill this state with random words from the kernel. Returns whether that worked
 * (METH_VARARGS). */
PyObject *fill_words(PyObject *self, PyObject *args);
