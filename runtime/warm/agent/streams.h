/* The descriptors that Python's standard streams were made for. */
#ifndef PYSBX_WARM_AGENT_STREAMS_H
#define PYSBX_WARM_AGENT_STREAMS_H

#include "warm/agent/python_abi.h"

/* note_streams(): the streams are made for what the descriptors are now. */
PyObject *note_streams(PyObject *self, PyObject *args);

/* The standard descriptors that are something else now, or closed: a new list of numbers; NULL: an exception
 * is set. */
PyObject *other_streams(void);

#endif
