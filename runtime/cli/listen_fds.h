/* Descriptors from socket activation, sd_listen_fds(3). */
#pragma once

/* Return how many descriptors from 3 on this process has received: $LISTEN_FDS if $LISTEN_PID is this
 * process, otherwise 0. */
unsigned listen_fds_count(void);
