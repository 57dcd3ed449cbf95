/* The clock of the day in a probe. */
#pragma once

#include "warm/agent/python_abi.h"

/* shift_clocks(shifted): from now on tell another day and note the readers (1), do so without a note (2), or
 * tell the time as it is (0). Returns the value of the last call. It has an effect only where the agent is
 * preloaded (METH_VARARGS). */
PyObject *shift_clocks(PyObject *self, PyObject *args);

/* clock_readers(): return the paths of the libraries that have read a clock that was shifted, with
 * repetitions.
 * "": the program itself (METH_VARARGS). */
PyObject *clock_readers(PyObject *self, PyObject *args);
