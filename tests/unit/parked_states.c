/* States of a process that are not saved, or that need a second check: parked.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "parked.h"

static void *wait_forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* Nothing is undone, because the process is killed. */
static void make_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_forever, NULL);
}
static void make_descriptor(void)
{
    if (dup(1) != 3)
        abort();
}
static void make_shared(void)
{
    (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static void make_timer(void)
{
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_NONE}, &timer);
}
static void make_alarm(void)
{
    alarm(1000);
}
static void make_child(void)
{
    pid_t parent = getpid();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it was killed before the line above */
            _exit(1);
        wait_forever(NULL);
    }
}
static void make_patched(int after)
{
    cleanup_fd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    page[0] = 1;
    mprotect(page, 4096, after);
}
static void make_executable(void)
{
    make_patched(PROT_READ | PROT_WRITE | PROT_EXEC);
}
static void make_code(void)
{
    make_patched(PROT_READ | PROT_EXEC);
}
static void make_removed_code(void)
{
    if (parked_map_removed("", PROT_READ | PROT_EXEC) == NULL)
        abort();
}
/* A program may do this if it never reads the clocks. */
static void make_moved(void)
{
    char line[256];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        if (strstr(line, "[vvar]") != NULL && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            size_t size = end - start;
            void *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            (void)mremap((void *)start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            break;
        }
    if (maps != NULL)
        fclose(maps);
}
/* Register a restartable sequence that never runs here, but could where a restorer runs (rseq(2)). The
 * kernel forgets it when it schedules the process, but not if the process shares its memory. */
#define RSEQ_SIGNATURE 0x53053053U
static const uint32_t landing[2] = {RSEQ_SIGNATURE, 0};
static struct {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32))) sequence = {0, 0, 0x10000, 4096, (uint64_t)&landing[1]};
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static int renew_sequence(void *owner)
{
    uint64_t *rseq = (uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (unsigned i = 1; i % 65536 != 0 || kill(*(pid_t *)owner, 0) == 0; i++)
        __atomic_store_n(&rseq[1], (uint64_t)&sequence, __ATOMIC_RELAXED);
    syscall(SYS_exit, 0); /* no exit handlers, because they belong to the parent */
    return 0;
}
static void make_sequence(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    static pid_t owner;
    owner = getpid();
    if (clone(renew_sequence, stack + sizeof(stack), CLONE_VM | CLONE_PARENT | SIGCHLD, &owner) < 0)
        abort();
}
static void make_pending(void)
{
    raise(SIGUSR2);
}
static void make_large(void)
{
    (void)mmap(NULL, 1UL << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
static char locked[3 * 4096];
static void make_locked(void)
{
    mlock(locked, sizeof(locked));
}
void parked_file_name(char name[static 64], pid_t test)
{
    snprintf(name, 64, "/tmp/test-warm.%d", (int)test);
}
static void *file_map;
static void make_file(void)
{
    char name[64];
    parked_file_name(name, parked_tester);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 4096) < 0)
        abort();
    /* As code: of a session, data of a file in memory is saved by its content, and /tmp may be in memory. */
    file_map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (file_map == MAP_FAILED)
        abort();
    close(fd);
}
/* libffi does this. */
static void make_open_file(void)
{
    char name[64];
    make_file();
    parked_file_name(name, parked_tester);
    if (open(name, O_RDONLY | O_CLOEXEC) != 3 || lseek(3, PARKED_POSITION, SEEK_SET) != PARKED_POSITION)
        abort();
}
/* PROJ does this. */
static void make_read_file(void)
{
    make_open_file();
    if (munmap(file_map, 4096) < 0)
        abort();
}
static void make_nothing(void)
{
}

const struct parked_state parked_states[] = {
    {"nothing", NULL, make_nothing},
    {"a file", NULL, make_file},
    {"a second thread", "there are 2 threads", make_thread},
    {"an open file that is mapped", NULL, make_open_file},
    {"an open file", "descriptor 3 is open (/tmp/test-warm.", make_read_file},
    {"an open descriptor", "descriptor 3 is open (pipe:", make_descriptor},
    {"shared memory", "is shared and writable", make_shared},
    {"a timer", "there is a timer (timer_create)", make_timer},
    {"an alarm", "a timer runs (setitimer, alarm)", make_alarm},
    {"a child", "there is a child process", make_child},
    {"writable code", "belongs to a file and is writable and executable", make_executable},
    {"code that it wrote", "a page of code at", make_code},
    {"code of a file that is gone", "is code of a file that the container does not have", make_removed_code},
    {"a restartable sequence", "it is in a restartable sequence", make_sequence},
    {"the kernel's areas elsewhere", "it has moved the vdso", make_moved},
    {"a pending signal", "a signal is pending", make_pending},
    {"locked memory", "is locked in memory", make_locked},
    {"a large reservation", "is too large", make_large},
};
const size_t parked_state_count = sizeof(parked_states) / sizeof(*parked_states);

bool parked_is_sequence(const struct parked_state *state)
{
    return state->make == make_sequence;
}

bool parked_has_sequences(void)
{
    return &__rseq_size != NULL && __rseq_size > 0;
}
