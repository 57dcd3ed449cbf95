/* The memory of the process that a restore may map from the snapshot's file. Its owner gives it to no system
 * call that tells a private mapping of a file from anonymous memory. A restore copies the rest. */
#pragma once

#include "warm/agent/python_abi.h"
#include "warm/params.h"

/* note_memory(alone): list what the interpreter has allocated until now, if only it and the C library have
 * mapped memory (`alone`). Watch its arenas from now on (METH_VARARGS). */
PyObject *note_memory(PyObject *self, PyObject *args);

/* Complete the list. It is valid until memory is allocated. */
const struct warm_memory *memory_list(void);
