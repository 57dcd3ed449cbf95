/* The libraries that the dynamic linker has loaded, and the one that has started a thread. */
#pragma once

#include "warm/agent/python_abi.h"

/* libraries(): the paths by which the dynamic linker has found the libraries; "" is the program
 * (METH_VARARGS). */
PyObject *libraries(PyObject *self, PyObject *args);

/* trampolines(descriptor): if this is the descriptor of libffi, find libffi's own variable for it. Returns
 * the address, the path of the library with the variable, as bytes, and a list of this library and those that
 * need it. None: it is not, or there is no such variable, or more than one (METH_O). */
PyObject *trampolines(PyObject *self, PyObject *number);

/* open_for(path, inheritable, address): open a file for reading, and store the descriptor at the address,
 * or -1 if that fails (METH_VARARGS). */
PyObject *open_for(PyObject *self, PyObject *args);

/* Return the path of the library with this address in its code, or NULL. "": the program itself. */
const char *library_at(uintptr_t address);

/* Return the path of the library whose function a thread of glibc runs. `robust_list` is the address of the
 * thread's list of robust mutexes. "": the program itself, NULL: not known. */
const char *library_of_thread(uintptr_t robust_list);
