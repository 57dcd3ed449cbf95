/* Durations in the notation of people and engines. */
#ifndef PYSBX_CLI_INTERVAL_H
#define PYSBX_CLI_INTERVAL_H

/* Return "5s", "500ms", "2m" or "5" (seconds) in milliseconds, from 1 to INT_MAX. -EINVAL for anything else.
 * */
int interval_parse(const char *text);

#endif
