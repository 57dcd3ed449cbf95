/* warm/dump/dump.h: states that are not saved, and the reasons. test_warm_restore.c restores the saved ones.
 */
#include "warm/dump/dump.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "parked.h"
#include "unit.h"
#include "warm/dump/vmas.h"

/* The thread that renews the sequence needs a CPU between the stop of the other thread and the end of the
 * dump. It does not get one every time. */
#define MOST_TRIES 50

static int try_to_dump(const struct parked_state *state, struct error *err)
{
    int ret = 0;
    for (int tries = parked_is_sequence(state) ? MOST_TRIES : 1; ret == 0 && tries > 0; tries--) {
        cleanup_fd int snapshot = memfd_create("snapshot", MFD_CLOEXEC);
        ret = parked_dump(state->name, snapshot, err);
    }
    return ret;
}

static void test_refusals(void)
{
    for (size_t i = 0; i < parked_state_count; i++) {
        if (parked_states[i].reason == NULL)
            continue;
        if (parked_is_sequence(&parked_states[i]) && !parked_has_sequences()) {
            skip("%s: the C library has none", parked_states[i].name);
            continue;
        }
        struct error err = {0};
        char name[64];
        parked_file_name(name, getpid());
        is_int(try_to_dump(&parked_states[i], &err), -ENOTSUP, "not saved: a process with %s",
               parked_states[i].name);
        if (!ok(strstr(err.text, parked_states[i].reason) != NULL, "the reason is given"))
            diag("%s", err.text);
        unlink(name);
    }
}

static void test_demands(void)
{
    cleanup_fd int refused = memfd_create("snapshot", MFD_CLOEXEC);
    struct error err = {0};
    struct dump_request small = {.out = refused, .limit = 8192};
    is_int(parked_dump_with("nothing", small, &err), -EFBIG,
           "not saved: a process that is larger than allowed");
    ok(strstr(err.text, "bytes, and 8192 are allowed") != NULL, "the reason is given");
    cleanup_fd int file = parked_open_self();
    size_t size = (size_t)lseek(file, 0, SEEK_END);
    char *agent = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    struct stat elsewhere;
    stat("/", &elsewhere);
    is_int(
        parked_dump_with("nothing", (struct dump_request){.out = refused, .pid_namespace = &elsewhere}, &err),
        -ESRCH, "not saved: a process that is not in the pid namespace of the one that was meant");
    struct dump_request same = {.out = refused, .agent = agent, .agent_size = size};
    is_int(parked_dump_with("nothing", same, &err), 0, "saved: a process with the agent that is expected");
    memset(agent, 0, size);
    is_int(parked_dump_with("nothing", same, &err), -ENOTSUP, "not saved: a process with another agent");
    ok(strstr(err.text, "another version of the runtime") != NULL, "the reason is given");
    munmap(agent, size);
}

#define VMA(start, device, inode, name)                                                                      \
    start " r-xp 00000000 " device " " inode " " name "\n"                                                   \
          "VmFlags: rd ex mr mw me\n"

/* The kernel may show files of two volumes with one name (warm/dump/place.h). */
static void test_names(void)
{
    static const struct {
        const char *text, *what, *reason;
        size_t files;
    } cases[] = {
        {VMA("10000-11000", "00:21", "5", "/lib/a.so") VMA("20000-21000", "00:21", "5", "/lib/a.so"),
         "a file that is mapped twice", NULL, 1},
        {VMA("10000-11000", "00:21", "5", "/lib/a.so") VMA("20000-21000", "00:22", "5", "/lib/a.so"),
         "files of two devices with one name", NULL, 2},
        {VMA("10000-11000", "00:21", "5", "/lib/a.so") VMA("20000-21000", "00:21", "6", "/lib/a.so"),
         "two inodes with one name", NULL, 2},
        {VMA("10000-11000", "00:21", "5", "/agent") VMA("20000-21000", "00:21", "5", "/agent"), "the agent",
         NULL, 0},
        {VMA("10000-11000", "00:22", "7", "/agent") VMA("20000-21000", "00:21", "5", "/agent"),
         "another file with the name of the agent",
         "memory at 0x20000-0x21000 (/agent) belongs to a second file with the name of the runtime's agent",
         0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct arena arena = {0};
        struct error err = {0};
        struct dump_vmas vmas;
        char *text = arena_strdup(&arena, cases[i].text);
        int ret = dump_vmas_parse(text, 1, &arena, "/agent", &vmas, &err);
        is_int(ret, cases[i].reason != NULL ? -ENOTSUP : 0, "%s", cases[i].what);
        if (cases[i].reason != NULL)
            is_str(err.text, cases[i].reason, "the reason is given");
        else
            is_int((long)vmas.file_count, (long)cases[i].files, "%s: the number of files", cases[i].what);
        arena_free(&arena);
    }
}

int main(int argc, char **argv)
{
    int exit_code;
    if (parked_is_wanted(argc, argv, &exit_code))
        return exit_code;
    test_names();
#ifdef __SANITIZE_ADDRESS__
    skip("a process of AddressSanitizer has more memory than can be saved");
    return done_testing();
#endif
    test_refusals();
    test_demands();
    return done_testing();
}
