/* The signals of a process that becomes part of a container. */
#ifndef PYSBX_CONTAINER_CHILD_SIGNALS_H
#define PYSBX_CONTAINER_CHILD_SIGNALS_H

/* Set every standard signal to its default action and unblock all. The caller's ignored and blocked signals
 * are not meant for the container. */
void signals_reset(void);

#endif
