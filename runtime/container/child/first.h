/* The child's side of the minimal init: container/first.h. */
#pragma once

struct error;
struct process_plan;

/* In the first process, after `start`, instead of launch_enter: clone the process that becomes the program,
 * and become the init. The program's process reports its own failure over `channel`. Return a negative errno,
 * only on failure; then the caller must end. */
int first_enter_program(struct process_plan *plan, const char *program, int channel, struct error *err);

/* In the program's process, before it gives up its memory without execve(2): wait until the first process no
 * longer uses it. Do nothing if there is no init. */
void first_wait_until_alone(const struct process_plan *plan);
