/* A process that is saved. The test executes itself as the process that parks, and its own file stands for
 * the agent's. After the restore, the process checks its state and prints "good WHAT" or "bad WHAT", one
 * line each, and "good end" at the end. Its exit code is 23. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "warm/dump/dump.h"

struct error;

/* Call this first in main: true in the process that parks, which then ends with *exit_code. */
bool parked_is_wanted(int argc, char **argv, int *exit_code);

/* States that a process may have. They are created before it parks, and never undone. */
struct parked_state {
    const char *name, *reason; /* why it is not saved in that state; NULL: it is */
    void (*make)(void);
};
extern const struct parked_state parked_states[];
extern const size_t parked_state_count;

/* Return whether the state is a restartable sequence, which a dump may miss; and whether the C library has
 * one. */
bool parked_is_sequence(const struct parked_state *state);
bool parked_has_sequences(void);

/* Save a process in the state of that name to `snapshot`, or with a request in which pid, root, agent and
 * meta are set. Errors are those of warm_dump. */
int parked_dump(const char *state, int snapshot, struct error *err);
int parked_dump_with(const char *state, struct dump_request request, struct error *err);

/* Return the file that stands for the agent's. The caller closes it. */
int parked_open_self(void);

/* The offset of the next read from a state's open file. */
#define PARKED_POSITION 7

/* Return the file that the test's process `test` uses in the states "a file" and "an open file …". It is
 * not removed. */
void parked_file_name(char name[static 64], pid_t test);

/* For the states: the test, which is not the parent of the process that parks. And a private mapping of
 * two pages of a removed file, with a string in the second page. */
extern pid_t parked_tester;
char *parked_map_removed(const char *text, int protection);
