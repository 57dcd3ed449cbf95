/* Answers from prlimit(2), umask(2), sched_getaffinity(2), sched_getscheduler(2), sched_getparam(2),
 * getpriority(2), lstat(2), access(2). */
#include "warm/question.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

static int answer_limit(const char *rest, char *out, size_t size)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    prlimit(0, (int)strtoul(rest, NULL, 10), NULL, &limit);
    return snprintf(out, size, "%" PRIu64 " %" PRIu64, (uint64_t)limit.rlim_cur, (uint64_t)limit.rlim_max);
}

static int answer_umask(const char *rest, char *out, size_t size)
{
    (void)rest;
    mode_t mask = umask(0);
    umask(mask);
    return snprintf(out, size, "%o", (unsigned)mask);
}

static int answer_affinity(const char *rest, char *out, size_t size)
{
    (void)rest;
    unsigned long words[QUESTION_CPUS_MAX / (8 * sizeof(unsigned long))] = {0};
    size_t last = sizeof(words) / sizeof(words[0]) - 1;
    (void)syscall(SYS_sched_getaffinity, 0, sizeof(words), words);
    while (last > 0 && words[last] == 0)
        last--;
    int n = snprintf(out, size, "%lx", words[last]);
    while (last-- > 0)
        n += snprintf(out + n, size - (size_t)n, "%016lx", words[last]);
    return n;
}

static int answer_scheduler(const char *rest, char *out, size_t size)
{
    (void)rest;
    struct sched_param param = {0};
    syscall(SYS_sched_getparam, 0, &param); /* musl has no such functions */
    return snprintf(out, size, "%ld %d %d", syscall(SYS_sched_getscheduler, 0), param.sched_priority,
                    getpriority(PRIO_PROCESS, 0));
}

static int answer_kind(const char *rest, char *out, size_t size)
{
    struct stat st = {0};
    return snprintf(out, size, "%o", lstat(rest, &st) == 0 ? (unsigned)(st.st_mode & S_IFMT) : 0);
}

static int answer_mode(const char *rest, char *out, size_t size)
{
    struct stat st;
    return lstat(rest, &st) < 0 ? snprintf(out, size, "0")
                                : snprintf(out, size, "%o %u %u", (unsigned)st.st_mode, (unsigned)st.st_uid,
                                           (unsigned)st.st_gid);
}

static int answer_mount(const char *rest, char *out, size_t size)
{
    char above[PATH_MAX];
    struct stat one = {0}, other = {0};
    bool told = snprintf(above, sizeof(above), "%s/..", rest) < (int)sizeof(above) &&
                lstat(rest, &one) == 0 && lstat(above, &other) == 0;
    return snprintf(out, size, "%d", told && one.st_dev != other.st_dev);
}

static int answer_write(const char *rest, char *out, size_t size)
{
    return snprintf(out, size, "%d", access(rest, W_OK) == 0);
}

static int answer_hidden(const char *rest, char *out, size_t size)
{
    char top[NAME_MAX + 2];
    struct stat one = {0}, other = {0};
    bool told =
        snprintf(top, sizeof(top), "%.*s", (int)strcspn(rest + 1, "/") + 1, rest) < (int)sizeof(top) &&
        lstat(rest, &one) == 0 && stat(top, &other) == 0;
    return snprintf(out, size, "%d", told && one.st_dev != other.st_dev);
}

static const struct {
    const char *name; /* with a space: something follows */
    int (*answer)(const char *rest, char *out, size_t size);
} questions[] = {
    {QUESTION_AFFINITY, answer_affinity}, {QUESTION_LIMIT, answer_limit}, {"umask", answer_umask},
    {"scheduler", answer_scheduler},      {QUESTION_KIND, answer_kind},   {QUESTION_MODE, answer_mode},
    {QUESTION_MOUNT, answer_mount},       {QUESTION_WRITE, answer_write}, {QUESTION_HIDDEN, answer_hidden},
};

/* Return the number of the question, and what follows its name; -1 for another text. */
static int find(const char *question, const char **rest)
{
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        *rest = str_after(question, questions[i].name);
        bool more = questions[i].name[strlen(questions[i].name) - 1] == ' ';
        if (*rest != NULL && more == (**rest != '\0'))
            return (int)i;
    }
    return -1;
}

bool question_is_valid(const char *question)
{
    const char *rest;
    return find(question, &rest) >= 0;
}

ssize_t question_answer(const char *question, char out[static QUESTION_ANSWER_MAX])
{
    const char *rest;
    int i = find(question, &rest);
    return i < 0 ? 0 : questions[i].answer(rest, out, QUESTION_ANSWER_MAX);
}
