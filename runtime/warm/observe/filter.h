/* The system calls that an observer is told of: which arguments say what. */
#ifndef PYSBX_WARM_OBSERVE_FILTER_H
#define PYSBX_WARM_OBSERVE_FILTER_H

#include <linux/filter.h>
#include <stddef.h>

struct arena;

enum observe_mode {
    OBSERVE_NOT,
    OBSERVE_PROBE,   /* note what the imports look at */
    OBSERVE_BUILDER, /* note nothing, but let /proc/PID/mounts say only what is mounted where: what libffi
                         reads there when it makes a callback, and what is in memory from then on, has paths
                         of the host in it, and names of the container that makes the snapshot */
};

/* The filter, to be loaded with a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER). Instructions in the arena. */
void observe_filter(struct arena *a, enum observe_mode mode, const struct sock_filter **filter,
                    size_t *count);

enum observed {
    OBSERVED_OPEN,    /* a path with open(2) flags */
    OBSERVED_OPEN2,   /* a path with struct open_how */
    OBSERVED_EXECUTE, /* a path */
    OBSERVED_STATUS,  /* a path */
    OBSERVED_NAME,    /* a path: is it there? */
    OBSERVED_SPACE,   /* a path: how much room is there? */
    OBSERVED_ADDRESS, /* a socket address and its length */
    OBSERVED_OWN,     /* the same, of the process itself */
    OBSERVED_MESSAGE, /* struct msghdr */
    OBSERVED_FAMILY,  /* socket(2) with an unusual family */
    OBSERVED_HOST,    /* uname(2) */
    OBSERVED_FORK,    /* fork(2), vfork(2), clone(2) without CLONE_THREAD */
    OBSERVED_CLONE3,  /* struct clone_args */
    OBSERVED_INPUT,   /* read(2) from standard input: it would wait for ever */
    OBSERVED_HIDDEN,  /* nothing can be observed behind it */
};

/* Arguments by number, -1: there is none. */
struct observed_call {
    int number;
    enum observed kind;
    signed char directory; /* descriptor of the directory */
    signed char subject;   /* path, address or structure */
    signed char detail;    /* flags, or length of the address */
    const char *phrase;    /* hidden: what the imports do */
};

/* The call of that number in x86-64's table, or NULL. */
const struct observed_call *observed_call(int number);

#endif
