/* The message from the runtime to a restored interpreter: one block of memory that the restorer leaves in the
 * process. The agent's park() returns its address. The agent shares this header and has no libc: plain
 * integers only. Strings and arrays follow the header in the same block; pointers are addresses in the
 * restored process. */
#pragma once

#include <stdint.h>

/* The path of the agent in a builder: beneath a /dev that is the container's own. */
#define WARM_AGENT_PATH "/dev/.pysbx-agent.so"

/* If the program's environment has this variable, and a restored interpreter has to execute itself anew, the
 * agent gives the reason to the new one in it. */
#define WARM_REASON_VARIABLE "PYSBX_COLD_REASON"

/* For each call of getenv(3), the agent of a probe looks up the variable's name in this directory. No such
 * file exists; the lookup is the message (observe.h). */
#define WARM_VARIABLES "/dev/.pysbx-variable/"

/* A probe may ask whether a path exists through a call that asks for more. Before and after, it looks up "1"
 * and "0" in this directory. */
#define WARM_QUIET "/dev/.pysbx-quiet/"

/* The message from the agent to the runtime that saves it: the parked system call has its address in its
 * first argument, which the call ignores. The memory in the list may be mapped from the snapshot's file
 * (agent/memory.h). */
#define WARM_MEMORY_MAGIC 0x5059534257524d32ULL
#define WARM_RANGES_MAX   4096

struct warm_range {
    uint64_t start, end; /* whole pages */
};

struct warm_memory {
    uint64_t magic;
    uint64_t heap;          /* 1: the heap belongs to the list, too */
    uint64_t count, ranges; /* an array of struct warm_range, in any order */
};

/* Return the bytes of a block that glibc has mapped for malloc(3), if these are its first two words. The
 * first is the size of the block before, 0. The second is its own, with a bit for such blocks. Since
 * glibc 2.43 that is without these words. `most`: bytes that it can have. Otherwise return 0. A pool of the
 * interpreter begins differently. */
static inline uint64_t warm_mapped_block(const uint64_t words[2], uint64_t page, uint64_t most)
{
    const uint64_t header = 2 * sizeof(*words), size = words[1] & ~7ULL;
    const uint64_t whole = (size + header) / page * page;
    return words[0] == 0 && (words[1] & 7) == 2 && (size == whole || size + header == whole) && whole <= most
               ? whole
               : 0;
}

/* A program that waits until its container is saved has this in the sixth argument of ppoll(2), which has
 * five. In the fifth, which counts only with a fourth, it has the address of a text: why it could not be
 * saved when it was last asked, or 0. */
#define WARM_WAIT_MAGIC 0x5059534257414954ULL
/* The result of that call with which the runtime asks for a fork to save. */
#define WARM_WAIT_FORK 0x70797362

/* The agent of a probe marks a system call in the upper half of an argument, where the kernel takes 32 bits.
 * That is the third of getrandom(2) and the first of fstat(2). The fourth is then an address in the caller.
 */
#define WARM_MARK 0x7079736200000000L

#define WARM_PARAMS_MAGIC 0x5059534257524d31ULL

/* The kind of program on the command line of the interpreter; see warm/command_line.h. */
enum warm_program {
    WARM_PROGRAM_COMMAND = 1, /* -c TEXT */
    WARM_PROGRAM_MODULE,      /* -m NAME */
    WARM_PROGRAM_FILE,        /* a script, or a directory or zip file with a __main__ */
    WARM_PROGRAM_STDIN,       /* "-", or no argument and standard input is not a terminal */
};

struct warm_params {
    uint64_t magic;
    uint64_t area, area_size; /* the mapping that holds the restorer, its stack and this block; the agent
                                 copies what it needs and unmaps it */
    uint64_t argc, argv;      /* the whole command line: argv is an array of argc + 1 pointers, NULL last */
    uint64_t envc, envp;      /* the environment, in the same form */
    uint64_t program;         /* enum warm_program */
    uint64_t program_index;   /* index in argv of TEXT, NAME, the file, or "-" (argc when there is none) */
    uint64_t required;        /* 1: there must be no cold start; the agent ends the process instead */
    uint8_t entropy[64];      /* fresh random bytes, different for every restore */
};
