/* The descriptors that Python's standard streams were made for. */
#pragma once

#include "warm/agent/python_abi.h"

/* note_streams(): remember the standard descriptors, for which the streams are made now. */
PyObject *note_streams(PyObject *self, PyObject *args);

/* Return a new list of the standard descriptors that are different now, or closed; NULL: an exception is set.
 */
PyObject *other_streams(void);
