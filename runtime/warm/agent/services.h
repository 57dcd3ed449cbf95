/* What the Python of the agent cannot do by itself, or not in every version. */
#ifndef PYSBX_WARM_AGENT_SERVICES_H
#define PYSBX_WARM_AGENT_SERVICES_H

#include "warm/agent/python_abi.h"

/* memory_file(): a descriptor of memory that reads like a file, or the kernel's negative answer. In a
 * container that is refused memfd_create(2) it is a file without a name in /dev/shm. os.memfd_create is not
 * in every Python: those that are made to run everywhere are built with a C library older than it
 * (METH_VARARGS). */
PyObject *memory_file(PyObject *self, PyObject *args);

/* first_environment(): the variables that the process was given, each with a NUL behind it. The kernel puts
 * them between the arguments and the name of the program; environ may say something else by now, and /proc
 * is not always there (METH_VARARGS). */
PyObject *first_environment(PyObject *self, PyObject *args);

/* probe_text(): the text of probe.py, which only a child of the template needs (METH_VARARGS). */
PyObject *probe_text(PyObject *self, PyObject *args);

/* thaw(object): what gc.freeze() has taken out of the collector's sight is in it again, this object alone
 * (METH_O). */
PyObject *thaw(PyObject *self, PyObject *object);

/* words_of(capsule): the bytes of its state, which is kept for fill_words() (METH_O). */
PyObject *words_of(PyObject *self, PyObject *capsule);

/* fill_words(): give it words from the kernel. Returns whether the kernel has done so (METH_VARARGS). */
PyObject *fill_words(PyObject *self, PyObject *args);

#endif
