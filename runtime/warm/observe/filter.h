/* The system calls that are reported to an observer, and the meaning of their arguments. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

struct arena;

enum observe_mode {
    OBSERVE_NOT,
    OBSERVE_PROBE,   /* note what the imports read or ask for */
    OBSERVE_BUILDER, /* note nothing, but let /proc/PID/mounts list only what is mounted where. libffi reads
                        it when it makes a callback. The content stays in memory from then on, with paths of
                        the host and names of the container that makes the snapshot */
};

/* Make the filter, to be loaded with a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER). The instructions are in
 * the arena. */
void observe_filter(struct arena *a, enum observe_mode mode, const struct sock_filter **filter,
                    size_t *count);

enum observed {
    OBSERVED_OPEN,    /* a path with open(2) flags */
    OBSERVED_OPEN2,   /* a path with struct open_how */
    OBSERVED_EXECUTE, /* a path */
    OBSERVED_STATUS,  /* a path */
    OBSERVED_NAME,    /* a path: does it exist? */
    OBSERVED_ACCESS,  /* a path with access(2) mode */
    OBSERVED_MADE,    /* a path that the call creates */
    OBSERVED_SPACE,   /* a path: how much space is free? */
    OBSERVED_ADDRESS, /* a socket address and its length */
    OBSERVED_OWN,     /* the same, of the process itself */
    OBSERVED_MESSAGE, /* struct msghdr */
    OBSERVED_FAMILY,  /* socket(2) with an unusual family */
    OBSERVED_HOST,    /* uname(2) */
    OBSERVED_FORK,    /* fork(2), vfork(2), clone(2) without CLONE_THREAD */
    OBSERVED_CLONE3,  /* struct clone_args */
    OBSERVED_INPUT,   /* read(2) from standard input: it would wait forever */
    OBSERVED_OUTPUT,  /* write(2) to standard output or error */
    /* Of the process; the runtime's child makes such calls before it executes the program. */
    OBSERVED_STREAM,   /* a descriptor: is it a standard stream? */
    OBSERVED_FCNTL,    /* a descriptor and a command of fcntl(2) */
    OBSERVED_IOCTL,    /* a descriptor and a request of ioctl(2) */
    OBSERVED_POLL,     /* struct pollfd and their number */
    OBSERVED_SELECT,   /* the number of descriptors, and three sets of them */
    OBSERVED_OTHER,    /* the number of a process, which may be another one */
    OBSERVED_OPENED,   /* a descriptor whose file is asked for its attributes */
    OBSERVED_ROOM,     /* a descriptor: how much space is free there? */
    OBSERVED_RANDOM,   /* the number of random bytes, and flags */
    OBSERVED_LIMIT,    /* the number of a resource limit */
    OBSERVED_QUESTION, /* nothing: the phrase is the question (warm/question.h) */
    OBSERVED_HIDDEN,   /* nothing can be observed after it, or a snapshot cannot repeat it */
};

/* Arguments by number, -1: none. */
struct observed_call {
    int number;
    enum observed kind;
    signed char directory; /* descriptor of the directory */
    signed char subject;   /* path, address or structure */
    signed char detail;    /* flags, or length of the address */
    const char *phrase;    /* hidden: the action of the imports; or a question */
};

/* Return the call with that number in the table of x86-64, or NULL: it is not known. */
const struct observed_call *observed_call(int number);
