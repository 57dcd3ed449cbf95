/* The end of the interpreter, left when all that remains of it is to give memory back. */
#ifndef PYSBX_WARM_AGENT_ENDING_H
#define PYSBX_WARM_AGENT_ENDING_H

#include <stdbool.h>

/* Py_RunMain(), known to shorten_ending(). */
int run_main(void);

/* Is this Py_FinalizeEx(), or does a program call exit handlers by itself (atexit._run_exitfuncs())? True
 * where it cannot be seen. */
bool is_ending(void);

/* In the last exit handler, when whatever is alive does nothing at its end, and what was written is flushed:
 * have Py_FinalizeEx() return, without an error, when modules, threads and the interpreter's own things are
 * gone and types, interned strings and caches are to go. The exit status stays what it is. Where it cannot be
 * seen how, or something is still to be called, Py_FinalizeEx() goes on as ever. */
void shorten_ending(void);

#endif
