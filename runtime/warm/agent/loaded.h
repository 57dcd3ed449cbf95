/* What the dynamic linker has loaded: functions of the agent that Python calls (METH_VARARGS, METH_O). */
#ifndef PYSBX_WARM_AGENT_LOADED_H
#define PYSBX_WARM_AGENT_LOADED_H

#include "warm/agent/python_abi.h"

/* libraries(): the paths by which the dynamic linker has found what it has loaded; "" is the program. */
PyObject *libraries(PyObject *self, PyObject *args);

/* threads(): the numbers of this process's other threads. */
PyObject *threads(PyObject *self, PyObject *args);

/* thread_library(tid): the path of the library whose function a thread of this process began with, "" for one
 * of the program, None for what does not tell: a thread that has only begun, or is none of glibc's. */
PyObject *thread_library(PyObject *self, PyObject *tid);

#endif
