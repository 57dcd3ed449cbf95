/* Durations in the notation of people and engines. */
#pragma once

/* Return "5s", "500ms", "2m" or "5" (seconds) in milliseconds, from 1 to INT_MAX. -EINVAL for anything else.
 * */
int interval_parse(const char *text);
