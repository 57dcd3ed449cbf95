/* Signals in the notation of people and engines. */
#pragma once

/* Return the number (signal(7)) of "9", "KILL", "SIGKILL", "sigkill", "RTMIN+3" or "SIGRTMAX-1". The number 0
 * is allowed, and only tests for existence. -EINVAL for anything else. */
int signal_parse(const char *text);
