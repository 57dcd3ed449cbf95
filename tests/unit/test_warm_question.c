/* Questions about the process: their form, and their answers. */
#include "warm/question.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "unit.h"

static bool answer_is(const char *question, const char *expected)
{
    char answer[QUESTION_ANSWER_MAX];
    ssize_t size = question_answer(question, answer);
    return size == (ssize_t)strlen(expected) && memcmp(answer, expected, (size_t)size) == 0;
}

static void test_form(void)
{
    static const char *const valid[] = {"limit 9",        "umask",        "scheduler",
                                        "kind /dev/fuse", "mount /proc",  "hidden /proc/stat",
                                        "affinity",       "mode /dev/shm"};
    static const char *const invalid[] = {"",           "limit", "limit ", "umask 1",
                                          "schedulers", "kind",  "other",  "/dev/fuse"};
    for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++)
        ok(question_is_valid(valid[i]), "valid: '%s'", valid[i]);
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
        ok(!question_is_valid(invalid[i]), "invalid: '%s'", invalid[i]);
}

static void test_answers(void)
{
    char question[32];
    snprintf(question, sizeof(question), "limit %d", RLIMIT_CORE);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    ok(answer_is(question, "0 0"), "a limit");
    umask(027);
    ok(answer_is("umask", "27") && answer_is("umask", "27"), "the umask, which stays");
    setpriority(PRIO_PROCESS, 0, 3);
    ok(answer_is("scheduler", "0 0 3"), "policy, priority and nice value");
    cpu_set_t set, first;
    sched_getaffinity(0, sizeof(set), &set);
    CPU_ZERO(&first);
    for (int cpu = 0; CPU_COUNT(&first) == 0; cpu++)
        if (CPU_ISSET(cpu, &set))
            CPU_SET(cpu, &first);
    sched_setaffinity(0, sizeof(first), &first);
    char cpus[32];
    snprintf(cpus, sizeof(cpus), "%lx", *(unsigned long *)&first);
    ok(answer_is("affinity", cpus), "the set of CPUs: %s", cpus);
    ok(answer_is("mode /dev/null", "20666 0 0"), "type, mode and owner of a device");
    ok(answer_is("write /dev/null", "1") && answer_is("write /does-not-exist", "0"), "files to write to");
    ok(answer_is("kind /dev/null", "20000"), "a device");
    ok(answer_is("kind /dev/does-not-exist", "0"), "a file that does not exist");
    ok(answer_is("mount /proc", "1") && answer_is("mount /proc/self", "0"), "a mount point, and a directory");
    ok(answer_is("mount /does-not-exist", "0"), "a directory that does not exist");
    ok(answer_is("hidden /proc/stat", "0") && answer_is("hidden /proc", "0"),
       "files without a mount on the way");
    ok(answer_is("hidden /dev/pts/ptmx", "1"), "a file below a mount point");
    ok(answer_is("hidden /proc/does-not-exist", "0"), "a file of the kernel that does not exist");
}

int main(void)
{
    test_form();
    test_answers();
    return done_testing();
}
