/* The signals of a process that becomes part of a container. */
#pragma once

/* Set every standard signal to its default action and unblock all. The caller's ignored and blocked signals
 * are not meant for the container. */
void signals_reset(void);
