/* A process that is saved: the test executes itself as the one that parks, and its own file stands for the
 * agent's. Restored, the process looks at what it has become and prints "good WHAT" or "bad WHAT", a line
 * each, "good end" at last, and its exit code is 23. */
#ifndef PYSBX_TESTS_PARKED_H
#define PYSBX_TESTS_PARKED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "warm/dump/dump.h"

struct error;

/* First in main: true in the process that parks, which then ends with *exit_code. */
bool parked_is_wanted(int argc, char **argv, int *exit_code);

/* What a process may have; made in it before it parks, and never undone. */
struct parked_state {
    const char *name, *reason; /* why it is not saved then; NULL: it is */
    void (*make)(void);
};
extern const struct parked_state parked_states[];
extern const size_t parked_state_count;

/* Is it a restartable sequence? Not each dump finds a process in its own. And has the C library any? */
bool parked_is_sequence(const struct parked_state *state);
bool parked_has_sequences(void);

/* Save a process with the state of that name to `image`, or with a request of which pid, root, agent and meta
 * are filled in. As warm_dump. */
int parked_dump(const char *state, int image, struct error *err);
int parked_dump_with(const char *state, struct dump_request request, struct error *err);

/* The file that stands for the agent's; the caller closes it. */
int parked_open_self(void);

/* Where the open file of a state is read next. */
#define PARKED_POSITION 7

/* The file of the states "a file" and "an open file …" that the test's process `test` has: it is left. */
void parked_file_name(char name[static 64], pid_t test);

/* For the states: the test, of which the process that parks is not a child; and a private mapping of two
 * pages of a file that is no more, with text in the second. */
extern pid_t parked_tester;
char *parked_map_removed(const char *text, int protection);

#endif
