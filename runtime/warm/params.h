/* What the runtime tells a restored interpreter: one block of memory that the restorer leaves in the process,
 * and whose address the agent's park() returns. Shared by the runtime and the agent, which has no libc: plain
 * integers only. Texts and arrays lie behind the header, in the same block; pointers are addresses in the
 * restored process. */
#ifndef PYSBX_WARM_PARAMS_H
#define PYSBX_WARM_PARAMS_H

#include <stdint.h>

/* Where a template finds the agent: beneath a /dev that is the container's own. */
#define WARM_AGENT_PATH "/dev/.pysbx-agent.so"

/* The directory below which the agent of a probe looks up each variable that getenv(3) is called for: no such
 * file exists, the look-up is the message (observe.h). */
#define WARM_VARIABLES "/dev/.pysbx-variable/"

/* The same way a probe says that it is about to ask whether a path is there, by a call that asks for more,
 * and that it has done so: "1" and "0" below this directory. */
#define WARM_QUIET "/dev/.pysbx-quiet/"

#define WARM_PARAMS_MAGIC 0x5059534257524d31ULL

/* What the command line of the interpreter asks for; see warm/command_line.h. */
enum warm_program {
    WARM_PROGRAM_COMMAND = 1, /* -c TEXT */
    WARM_PROGRAM_MODULE,      /* -m NAME */
    WARM_PROGRAM_FILE,        /* a script, or a directory or zip file with a __main__ */
    WARM_PROGRAM_STDIN,       /* "-", or nothing and standard input is no terminal */
};

struct warm_params {
    uint64_t magic;
    uint64_t area, area_size; /* the mapping that holds the restorer, its stack and this block; the agent
                                 copies what it needs and unmaps it */
    uint64_t argc, argv;      /* the whole command line: argv is an array of argc + 1 pointers, NULL last */
    uint64_t envc, envp;      /* the environment, the same way */
    uint64_t program;         /* enum warm_program */
    uint64_t program_index;   /* index in argv of TEXT, NAME, the file, or "-" (argc when there is none) */
    uint8_t entropy[64];      /* fresh random bytes, different for every restore */
};

#endif
