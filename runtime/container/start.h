/* The steps of start that run shares. */
#pragma once

struct error;
struct record;

/* Tell the init at the other end of `channel` to go on, and wait until it has executed its program. Return 0
 * or a negative errno. The error is init's own. */
int start_program(int channel, struct error *err);

/* Run the poststart hooks of the saved configuration. A failure kills the container. Return 0 or a negative
 * errno. */
int start_run_hooks(int dir, const struct record *record, struct error *err);
