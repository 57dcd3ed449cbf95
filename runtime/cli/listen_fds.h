/* Descriptors handed over by socket activation, sd_listen_fds(3). */
#ifndef PYSBX_CLI_LISTEN_FDS_H
#define PYSBX_CLI_LISTEN_FDS_H

/* How many descriptors from 3 on were handed to this process: $LISTEN_FDS, if
 * $LISTEN_PID names us; else 0. */
unsigned listen_fds_count(void);

#endif
