/* What the dynamic linker has loaded, and which of it has started a thread. */
#ifndef PYSBX_WARM_AGENT_LOADED_H
#define PYSBX_WARM_AGENT_LOADED_H

#include "warm/agent/python_abi.h"

/* libraries(): the paths by which the dynamic linker has found what it has loaded; "" is the program
 * (METH_VARARGS). */
PyObject *libraries(PyObject *self, PyObject *args);

/* The path of the library whose function a thread of glibc began with, which has its list of robust mutexes
 * there;
 * "": the program itself, NULL: that cannot be told. */
const char *library_of_thread(uintptr_t robust_list);

#endif
