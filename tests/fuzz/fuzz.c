/* libFuzzer's side of the targets. The name of the program selects the target (build/fuzz/NAME). Findings
 * become seeds when they are fixed. FUZZ_SECONDS is the CPU time after which the program ends. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "targets.h"

/* A slow input is a finding. libFuzzer's own limit is wall clock time, which a busy machine consumes by
 * itself. */
#define MAX_INPUT_SECONDS 1.0

static const struct fuzz_target *target;
static unsigned long executions;
static double limit;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Also if -max_total_time ends earlier. */
static void finish(void)
{
    if (limit > 0)
        fprintf(stderr, "fuzz: %s: %lu executions in %.1f CPU seconds\n", target->name, executions,
                cpu_seconds());
    fuzz_clean_up();
}

/* libFuzzer defines the type. NOLINTNEXTLINE(readability-non-const-parameter) */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *slash = strrchr((*argv)[0], '/'), *name = slash != NULL ? slash + 1 : (*argv)[0];
    const char *seconds = getenv("FUZZ_SECONDS");
    (void)argc;
    for (target = fuzz_targets; target->name != NULL && strcmp(target->name, name) != 0; target++)
        ;
    if (target->name == NULL) {
        fprintf(stderr, "fuzz: no target is called '%s'\n", name);
        exit(2);
    }
    limit = seconds != NULL ? strtod(seconds, NULL) : 0;
    atexit(finish);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double begun = cpu_seconds();
    target->run(data, size);
    executions++;
    double now = cpu_seconds();
    fuzz_require(now - begun <= MAX_INPUT_SECONDS);
    if (limit > 0 && now >= limit) {
        finish();
        _exit(0); /* libFuzzer treats exit(3) within a run as a crash */
    }
    return 0;
}
