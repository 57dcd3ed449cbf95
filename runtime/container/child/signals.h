/* Signals of a process that becomes a container's. */
#ifndef PYSBX_CONTAINER_CHILD_SIGNALS_H
#define PYSBX_CONTAINER_CHILD_SIGNALS_H

/* Every standard signal to its default action, none blocked: what the caller ignores or blocks is not meant
 * for the container. */
void signals_reset(void);

#endif
