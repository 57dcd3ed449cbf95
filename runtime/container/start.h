/* The parts of start that run shares. */
#ifndef PYSBX_CONTAINER_START_H
#define PYSBX_CONTAINER_START_H

struct error;
struct record;

/* Tell the init at the other end of `channel` to go on, and wait until it has executed its program. The error
 * is the init's own. */
int start_program(int channel, struct error *err);

/* poststart hooks from the saved configuration; a failure kills the container. */
int start_run_hooks(int dir, const struct record *record, struct error *err);

#endif
