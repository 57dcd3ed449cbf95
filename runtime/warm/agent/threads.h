/* Other threads of the process, and how a fork that is saved takes them along. */
#pragma once

#include "warm/agent/python_abi.h"

/* rest_threads(): find out, without a fork, whether threads_fork() could take all threads along. Returns None
 * if it could, else (name, library, reason) of a thread that would be missing. The library is None if it is
 * not known, "" for the program itself (METH_VARARGS). */
PyObject *rest_threads(PyObject *self, PyObject *args);

/* Fork as fork(2), but take threads along that their libraries would miss: the child has all that
 * threads_start() needs. In that case no handlers of pthread_atfork(3) are called, because no thread is left
 * behind. -EBUSY: some thread cannot come along; -EAGAIN: as fork(2). */
int threads_fork(void);

/* In the child of threads_fork(), let the other threads continue where they were. To be called once. Returns
 * 0 or a negative errno. After an error only some threads run, so this process cannot continue. */
int threads_start(void);
