/* run: the steps that follow once the container is created and its program runs. */
#pragma once

#include "container/creation.h"
#include "container/options.h"
#include "container/wait.h"

struct error;

/* Prepare the runtime to stay in the foreground: hold signals back and become the subreaper. Call it before
 * the container is created. If the creation fails, call wait_restore_signals. */
void run_begin(const struct create_options *options, struct wait_signals *signals);

/* Run the poststart hooks. Without options->detach, wait for the program, and then delete the container
 * unless options->keep is set. After a failure the container is always deleted. On return, signals are no
 * longer held back. *exit_code is the status of the program, 128+n for a signal. Return 0 or a negative
 * errno. */
int run_finish(struct creation *creation, const struct create_options *options, struct wait_signals *signals,
               int *exit_code, struct error *err);
