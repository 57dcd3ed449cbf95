/* run: what follows once the container is created and its program runs. */
#ifndef PYSBX_CONTAINER_RUN_H
#define PYSBX_CONTAINER_RUN_H

#include "container/creation.h"
#include "container/options.h"
#include "container/wait.h"

struct error;

/* Prepare the runtime to stay in the foreground, before the container is created: hold signals back and
 * become the subreaper. After a failure call wait_restore_signals. */
void run_begin(const struct create_options *options, struct wait_signals *signals);

/* Run the poststart hooks. Without options->detach wait for the program, and delete the container unless
 * options->keep; after a failure it is deleted in any case. Signals are no longer held back then. *exit_code:
 * the status of the program, 128+n for a signal. 0 or a negative errno. */
int run_finish(struct creation *creation, const struct create_options *options, struct wait_signals *signals,
               int *exit_code, struct error *err);

#endif
