/* Signals as people and engines write them. */
#ifndef PYSBX_CLI_SIGNAL_NAME_H
#define PYSBX_CLI_SIGNAL_NAME_H

/* "9", "KILL", "SIGKILL", "sigkill", "RTMIN+3", "SIGRTMAX-1": the number, as signal(7) has it; 0, which only
 * tests for existence, is allowed as a number. -EINVAL for anything else. */
int signal_parse(const char *text);

#endif
