/* The minimal init itself: code without a C library, which the runtime puts into an executable file
 * (container/first.c). */
#pragma once

/* The descriptor of the page for the program's status. It may be closed: then there is no report. */
#define FIRST_REPORT_FD 0
/* Bytes of that page that are mapped. */
#define FIRST_REPORT_SIZE 4096

/* The numbers of that page. */
enum first_word {
    FIRST_STATUS, /* of the program, as waitpid(2) returns it */
    FIRST_ENDED,  /* 1: the program has ended */
};

/* The code between these symbols is position independent and refers to nothing outside. The program begins at
 * first_enter. Its second argument is the pid of its only child in decimal digits. All signals are blocked.
 */
extern const unsigned char first_code_start[] __asm__("__start_pysbx_first");
extern const unsigned char first_code_end[] __asm__("__stop_pysbx_first");
extern const unsigned char first_enter[];

/* Called at first_enter with the stack of a new program: argc, argv. */
_Noreturn void first_main(const long *stack);
