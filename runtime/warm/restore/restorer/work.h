/* The restorer exchanges the memory of a process. It carries out a list of system calls that is complete when
 * it starts: the restorer decides nothing. */
#pragma once

#include <stdint.h>

enum restorer_flag {
    RESTORER_HINT = 1,  /* a failure does no harm */
    RESTORER_STORE = 2, /* the result is stored as an int at the address in the first argument */
    RESTORER_WHOLE = 4, /* the result must be the size in the third argument, */
    RESTORER_SUM = 8,   /* or in the sixth, which the call ignores */
};

/* One system call. Any result except a negative errno is success. Addresses are fixed, so mmap(2) can return
 * no other. */
struct restorer_step {
    int64_t number;
    uint64_t arguments[6];
    uint32_t report; /* the report to send if it fails */
    uint32_t flags;
};

#define RESTORER_TEXT_MAX 120

/* Sent as is from `message` on: the form of messages between container process and runtime
 * (container/sync.h). */
struct restorer_report {
    uint32_t text_size; /* not sent; with the NUL */
    int32_t message;
    int32_t code;                 /* filled in: negative errno */
    char text[RESTORER_TEXT_MAX]; /* NUL-terminated; ends with three digits for the error number */
};

struct restorer_work {
    const struct restorer_step *steps;
    uint64_t step_count;
    struct restorer_report *reports;
    uint64_t frame;    /* restored by rt_sigreturn(2) at the end */
    int64_t report_fd; /* -1: no report */
};

/* Carry out the steps without returning. The copied code between the two symbols is position independent and
 * refers to nothing outside. */
_Noreturn void restorer_run(struct restorer_work *work);
extern const unsigned char restorer_start[] __asm__("__start_pysbx_restorer");
extern const unsigned char restorer_end[] __asm__("__stop_pysbx_restorer");

static inline uint64_t restorer_size(void)
{
    return (uintptr_t)restorer_end - (uintptr_t)restorer_start;
}
