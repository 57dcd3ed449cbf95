/* container/record.h: a damaged record is an error with the position, and the status of a container of run.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/proc.h"
#include "container/record.h"
#include "unit.h"

#define WITHOUT_CGROUP "id c1\noci-version 1.2.0\nbundle /b\nrootfs /b/rootfs\ncreated now\n"
#define NEEDED         WITHOUT_CGROUP "cgroup-manager 2\ncgroup-path \n"

static struct arena arena;
static struct error error;

static int parse(const char *text, struct record *out)
{
    error = (struct error){0};
    return record_parse(&arena, arena_strdup(&arena, text), out, &error);
}

static void test_numbers(void)
{
    struct record record;
    ok(parse(NEEDED "pid 17\nstart-time 18446744073709551615\n", &record) == 0 && record.pid == 17 &&
           record.start_time == UINT64_MAX,
       "numbers are read");
    is_int(parse(NEEDED "pid 4294967297\n", &record), -EINVAL, "a pid that would become another is refused");
    is_str(error.text, "the container's state record has a bad 'pid'", "… and named");
    is_int(parse(NEEDED "pid -2147483649\n", &record), -EINVAL, "as is one below all");
    is_int(parse(NEEDED "owner 4294967296\n", &record), -EINVAL, "a user that would become root is refused");
    is_int(parse(NEEDED "start-time 1x\n", &record), -EINVAL, "digits only");
}

static void test_lines(void)
{
    struct record record;
    ok(parse("annotation k\nvalue a\\nb\\\\\n" NEEDED, &record) == 0, "lines are read");
    ok(record.annotations.count == 1, "one annotation");
    is_str(record.annotations.items[0].value, "a\nb\\", "escapes are undone");
    is_int(parse("id\n", &record), -EINVAL, "a line without a value is refused");
    is_int(parse(NEEDED "cgroup-path /", &record), -EINVAL, "as is half a line");
    is_str(error.text, "the container's state record is damaged at 'cgroup-path /'", "… which is named");
    is_int(parse("id c1\n", &record), -EINVAL, "a record that is not complete is refused");
    is_int(parse("", &record), -EINVAL, "as is an empty one");
    is_int(parse(NEEDED "pid 17\n", &record), -EINVAL, "a process without its time would seem to have ended");
}

/* No command has to expect half a location of the cgroup. */
static void test_cgroups(void)
{
    static const char *const whole[] = {
        "cgroup-manager 0\ncgroup-mount /m\ncgroup-path /c\n",
        "cgroup-manager 1\ncgroup-mount /m\ncgroup-path /c\ncgroup-scope c.scope\n",
    };
    static const char *const parts[] = {
        "",
        "cgroup-manager 2\n",
        "cgroup-manager 0\ncgroup-mount /m\n",
        "cgroup-manager 0\ncgroup-path /c\n",
        "cgroup-manager 0\ncgroup-mount /m\ncgroup-path //\n",
        "cgroup-manager 1\ncgroup-mount /m\ncgroup-path /c\n",
        "cgroup-manager 3\ncgroup-mount /m\ncgroup-path /c\n",
    };
    struct record record;
    char text[256];
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        snprintf(text, sizeof(text), WITHOUT_CGROUP "%s", whole[i]);
        is_int(parse(text, &record), 0, "a whole location of the cgroup is read");
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(text, sizeof(text), WITHOUT_CGROUP "%s", parts[i]);
        is_int(parse(text, &record), -EINVAL, "a location without a part, or the root, is refused");
    }
}

/* Return the status of a container of run whose first process is this one. */
static int status_of(pid_t pid)
{
    struct record record = {.pid = pid, .executes = true, .cgroup.manager = CGROUP_MANAGER_DISABLED};
    struct proc_stat stat = {0};
    proc_read_stat(pid, &stat);
    record.start_time = stat.start_time;
    return (int)record_status(AT_FDCWD, &record);
}

/* run writes nothing after its first process has executed the program: the kernel knows that. */
static void test_executes(void)
{
    int ready[2];
    char byte = 0;
    if (pipe2(ready, O_CLOEXEC) < 0)
        bail_out("pipe2");
    pid_t pid = fork();
    if (pid == 0) {
        close(ready[1]);
        (void)!read(ready[0], &byte, 1);
        execlp("sleep", "sleep", "1000", NULL);
        _exit(1);
    }
    close(ready[0]);
    is_int(status_of(pid), STATUS_CREATING, "before execve the container is being created");
    close(ready[1]);
    for (int i = 0; i < 10000 && status_of(pid) == STATUS_CREATING; i++)
        usleep(1000);
    is_int(status_of(pid), STATUS_RUNNING, "after it, the container is running");
    kill(pid, SIGKILL);
    is_int(waitpid(pid, NULL, 0), pid, "its process has ended");
}

int main(void)
{
    test_numbers();
    test_lines();
    test_cgroups();
    test_executes();
    arena_free(&arena);
    return done_testing();
}
