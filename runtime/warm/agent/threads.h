/* Other threads of the process, and how they come along in a fork that is saved. */
#ifndef PYSBX_WARM_AGENT_THREADS_H
#define PYSBX_WARM_AGENT_THREADS_H

#include "warm/agent/python_abi.h"

/* rest_threads(): whether threads_fork() would be as good as starting without a snapshot, tried without a
 * fork. Returns None if it would, else (name, library, reason) of a thread that would be missing; the library
 * is None where that cannot be told, "" for the program itself (METH_VARARGS). */
PyObject *rest_threads(PyObject *self, PyObject *args);

/* fork(2), but threads come along where a library would miss them: the child gets what threads_start() needs.
 * Then no handlers of pthread_atfork(3) are called, for nobody is left behind. -EBUSY: some thread cannot
 * come along; -EAGAIN: as fork(2). */
int threads_fork(void);

/* In the child of threads_fork(), once: the others go on from where they were. Returns 0, or a negative
 * errno: then only some do, and this process cannot go on. */
int threads_start(void);

#endif
