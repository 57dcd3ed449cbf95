/* The write set: the pages that a process has written to since a fork, seen from outside. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "unit.h"
#include "warm/dump/writes.h"
#include "warm/snapshot/snapshot.h"

#define PAGES 64
#define MANY  5000 /* more than a process can have */

static struct arena arena;
static uint64_t page;

/* Memory that exists before the fork. */
static char *make_memory(size_t pages)
{
    char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bail_out("mmap");
    memset(memory, 1, pages * page);
    return memory;
}

/* Create a child that writes to some of the pages, and then waits. */
static pid_t start_writer(char *memory, const size_t *pages, size_t count)
{
    int ends[2];
    char byte;
    if (pipe(ends) < 0)
        bail_out("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < count; i++)
            memory[pages[i] * page] = 2;
        close(ends[0]);
        close(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], &byte, 1) != 0)
        bail_out("start a writer");
    close(ends[0]);
    return pid;
}

static void end_writer(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct snapshot_parts parts_of(struct snapshot_vma *vma)
{
    return (struct snapshot_parts){.vmas = vma, .vma_count = 1};
}

static struct snapshot_vma vma_of(const char *memory, size_t pages)
{
    uint64_t start = (uintptr_t)memory;
    return (struct snapshot_vma){.start = start, .end = start + pages * page, .prot = PROT_READ | PROT_WRITE};
}

static void test_written_pages(void)
{
    static const size_t written[] = {3, 4, 10};
    char *memory = make_memory(PAGES);
    uint64_t start = (uintptr_t)memory;
    pid_t pid = start_writer(memory, written, 3);
    struct snapshot_vma vma = vma_of(memory, PAGES);
    struct snapshot_parts parts = parts_of(&vma);
    dump_writes(pid, NULL, &arena, &parts);
    is_int((int)parts.write_count, 2, "two extents were written to");
    if (parts.write_count == 2) {
        ok(parts.writes[0].address == start + 3 * page && parts.writes[0].pages == 2, "two adjacent pages");
        ok(parts.writes[1].address == start + 10 * page && parts.writes[1].pages == 1, "and a single one");
    }

    struct stat here, elsewhere;
    if (stat("/proc/self/ns/pid", &here) < 0 || stat("/", &elsewhere) < 0)
        bail_out("stat");
    parts = parts_of(&vma);
    dump_writes(pid, &elsewhere, &arena, &parts);
    is_int((int)parts.write_count, 0, "not inspected: a process of another pid namespace");
    dump_writes(pid, &here, &arena, &parts);
    is_int((int)parts.write_count, 2, "inspected: one of the intended namespace");

    static const struct {
        uint32_t prot, flags;
        const char *name;
    } others[] = {
        {PROT_READ, 0, "memory that is not writable"},
        {PROT_READ | PROT_WRITE, SNAPSHOT_VMA_STACK, "a stack"},
        {PROT_READ | PROT_WRITE, SNAPSHOT_VMA_WIPEONFORK, "memory that returns empty"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        vma.prot = others[i].prot;
        vma.flags = others[i].flags;
        parts = parts_of(&vma);
        dump_writes(pid, NULL, &arena, &parts);
        is_int((int)parts.write_count, 0, "not inspected: %s", others[i].name);
    }
    end_writer(pid);
    vma = vma_of(memory, PAGES);
    parts = parts_of(&vma);
    dump_writes(pid, NULL, &arena, &parts);
    is_int((int)parts.write_count, 0, "nothing is learned from a process that has ended");
    dump_writes(0, NULL, &arena, &parts);
    is_int((int)parts.write_count, 0, "nothing is learned without a process");
    munmap(memory, PAGES * page);
}

static void test_too_many(void)
{
    static size_t all[MANY];
    char *memory = make_memory(MANY);
    for (size_t i = 0; i < MANY; i++)
        all[i] = i;
    pid_t pid = start_writer(memory, all, MANY);
    struct snapshot_vma vma = vma_of(memory, MANY);
    struct snapshot_parts parts = parts_of(&vma);
    dump_writes(pid, NULL, &arena, &parts);
    is_int((int)parts.write_count, 0, "a process that writes to every page is not trusted");
    end_writer(pid);
    munmap(memory, MANY * page);
}

int main(void)
{
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_written_pages();
    test_too_many();
    arena_free(&arena);
    return done_testing();
}
