/* The end of the interpreter, which is cut short when only memory remains to be freed. */
#pragma once

#include <stdbool.h>

/* Find the frame that has called Py_RunMain() in the builder, whose main() has called the interpreter. */
void find_bottom(void);

/* Call Py_RunMain() from that frame, whose functions then end the process as in a cold start. So the stack
 * beneath the program is that of a cold start. If the frame was not found, Py_RunMain() is called from here.
 */
_Noreturn void run_main(void);

/* Return whether Py_FinalizeEx() is running, as opposed to a program that calls exit handlers itself
 * (atexit._run_exitfuncs()). True if the stack does not tell. */
bool is_ending(void);

/* Make Py_FinalizeEx() return early, without an error: after modules, threads and the interpreter's own
 * objects, but before types, interned strings and caches are freed. The exit status does not change. The last
 * exit handler calls this, if no living object acts at its end and all output is flushed. If the stack cannot
 * be unwound, or functions of Py_AtExit() are registered, Py_FinalizeEx() continues as usual. */
void shorten_ending(void);
