/* The agent: a shared object without libc (runtime/warm/agent/agent.c), and behind it in its file the Python
 * that probe and builder load (start.py). The builder loads it to import modules and to park, and a restored
 * interpreter runs the user's program through it. It is part of the runtime's binary. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* The shared object, as built, page aligned. */
extern const unsigned char agent_start[], agent_end[];
static inline size_t agent_size(void)
{
    return (uintptr_t)agent_end - (uintptr_t)agent_start;
}

/* The file of a probe or builder: the shared object and its Python. */
extern const unsigned char agent_file_end[];
static inline size_t agent_file_size(void)
{
    return (uintptr_t)agent_file_end - (uintptr_t)agent_start;
}

/* A digest of the agent with its Python, in hexadecimal digits. Only the same agent can wake up a snapshot,
 * and two builds of the same version may have different agents. */
#define AGENT_IDENTITY_SIZE 33 /* with the NUL */
extern const char agent_identity[AGENT_IDENTITY_SIZE];

/* The name of the memory file from which restored processes map it, and the same in /proc/PID/maps. */
#define AGENT_FILE   "pysbx-agent"
#define AGENT_MAPPED "/memfd:" AGENT_FILE " (deleted)"

/* The system call in which a builder waits until it is saved (ppoll(2)). */
#define AGENT_PARK SYS_ppoll

/* The program text for `python3 FLAGS -c TEXT AGENT_PATH REPORT_FD MODULE...` that makes an interpreter a
 * builder or a probe. */
extern const char agent_bootstrap[];
