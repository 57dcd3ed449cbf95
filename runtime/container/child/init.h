/* The child that becomes the container's init. */
#pragma once

struct init_context;

/* Carry out the plan, wait for start and execute the program. After a failure tell the runtime, or start, the
 * reason, and exit. */
_Noreturn void init_main(const struct init_context *context);
