/* Durations as people and engines write them. */
#ifndef PYSBX_CLI_INTERVAL_H
#define PYSBX_CLI_INTERVAL_H

/* "5s", "500ms", "2m", "5" (seconds) as milliseconds, from 1 to INT_MAX; -EINVAL for anything else. */
int interval_parse(const char *text);

#endif
