/* The process that parks, and its checks after it was restored: parked.h. */
#include "parked.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "unit.h"
#include "warm/params.h"

/* Newer than the headers of the oldest supported distribution. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* All exceptions masked, the default otherwise. */
#define CSR_ROUND_UP 0x5f80U
#define X87_ROUND_UP 0x0b7fU

pid_t parked_tester;

static char parked_self[4096];

static _Thread_local int thread_local_word = 7;
static volatile int signals_seen;
static int relocated_target;
static int *const volatile relocated = &relocated_target;
static char written[3 * 4096] = {1};

static void on_signal(int sig)
{
    (void)sig;
    signals_seen++;
}

/* Like the agent: a system call of this program's own code, whose result comes from the restorer. Its first
 * argument is the list of the memory that may be mapped. */
static struct warm_params *park(const struct warm_memory *list)
{
    long result = SYS_pause;
    __asm__ volatile("syscall" : "+a"(result) : "D"(list) : "rcx", "r11", "memory");
    return (struct warm_params *)result;
}

__attribute__((noinline)) static unsigned long recurse(unsigned depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth == 0 ? 0 : recurse(depth - 1) + (unsigned long)(frame[0] != (char)depth) + 1;
}

static bool file_holds(const char *path, const char *text, size_t size)
{
    char buffer[65536];
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    for (ssize_t n; used < sizeof(buffer) && (n = read(fd, buffer + used, sizeof(buffer) - used)) > 0;)
        used += (size_t)n;
    return memmem(buffer, used, text, size) != NULL;
}

struct before {
    char *heap, *wiped, *large, *removed, *code, *writable_code;
    char *guarded, *guarded_file; /* three pages; the second is inaccessible if the kernel supports that */
    bool has_guard, file_has_guard;
    char behind[4096]; /* the third of the file */
    char *divided;     /* five pages; the second and the fourth are in the list */
    struct warm_range ranges[2];
    struct warm_memory list;
    void *brk;
};

char *parked_map_removed(const char *text, int protection)
{
    char name[] = "/tmp/test-warm.XXXXXX";
    cleanup_fd int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, 8192) < 0 || pwrite(fd, text, strlen(text), 4096) < 0)
        abort();
    char *map = mmap(NULL, 8192, protection, MAP_PRIVATE, fd, 0);
    unlink(name);
    return map != MAP_FAILED ? map : NULL;
}

/* Guard pages exist for memory since Linux 6.13, and for files since 6.15, which also reports their
 * location. */
static void make_guards(struct before *b)
{
    b->guarded = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(b->guarded, 'g', 3 * 4096);
    b->has_guard = madvise(b->guarded + 4096, 4096, MADV_GUARD_INSTALL) == 0;
    cleanup_fd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    b->guarded_file = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    memcpy(b->behind, b->guarded_file + 8192, sizeof(b->behind));
    b->file_has_guard = madvise(b->guarded_file + 4096, 4096, MADV_GUARD_INSTALL) == 0;
}

/* Return a function that returns a number, in code generated like a compiler's. Its callers need no write
 * access to it. */
static char *make_function(int number, int protection)
{
    const unsigned char text[] = {0xb8, (unsigned char)number, 0, 0, 0, 0xc3}; /* mov eax; ret */
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, text, sizeof(text));
    mprotect(page, 4096, protection);
    return page;
}

static bool function_returns(char *function, int number)
{
    int (*call)(void) = (int (*)(void))(uintptr_t)function;
    return call() == number;
}

/* Return the permissions of the VMA that begins there, from /proc/self/maps. */
static bool is_mapped(const char *address, const char *permissions)
{
    char line[64];
    snprintf(line, sizeof(line), "\n%lx-%lx %s", (unsigned long)address, (unsigned long)address + 4096,
             permissions);
    return file_holds("/proc/self/maps", line, strlen(line));
}

static bool times_agree(void)
{
    struct timespec by_vdso, by_call;
    if (clock_gettime(CLOCK_MONOTONIC, &by_vdso) < 0 ||
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &by_call) < 0)
        return false;
    return by_call.tv_sec - by_vdso.tv_sec <= 1 && by_call.tv_sec >= by_vdso.tv_sec;
}

static bool brk_grows(const struct before *b)
{
    char *old = sbrk(1 << 20);
    if (old != b->brk)
        return false;
    memset(old, 1, 1 << 20);
    return sbrk(0) == old + (1 << 20);
}

static bool robust_list_set(void)
{
    void *head = NULL;
    size_t size = 0;
    return syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head != NULL && size == 24;
}

static bool signal_works(void)
{
    signals_seen = 0;
    raise(SIGUSR1);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    return signals_seen == 1 && sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGTERM) == 0 &&
           signal(SIGPIPE, SIG_DFL) == SIG_IGN && signal(SIGHUP, SIG_DFL) == SIG_DFL;
}

static bool threads_work(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attributes);
    clockid_t clock;
    struct timespec now;
    return pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK &&
           pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock_gettime(clock, &now) == 0;
}

static bool forks(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(getppid() > 0 ? 5 : 6);
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5;
}

static bool all_equal(const char *memory, char value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (memory[i] != value)
            return false;
    return true;
}

static bool is_readable(const char *address)
{
    int ends[2];
    if (pipe(ends) < 0)
        abort();
    bool readable = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
}

static void say(const char *name, bool good)
{
    printf("%s %s\n", good ? "good" : "bad", name);
}

/* Mapped memory has its old content after MADV_DONTNEED. */
static bool is_restored_by_mapping(char *page)
{
    return madvise(page, 4096, MADV_DONTNEED) == 0 && page[0] == 'd';
}

static void check_memory(const struct before *b)
{
    say("memory of a divided VMA", all_equal(b->divided, 'd', 5 * 4096));
    say("listed pages are mapped",
        is_restored_by_mapping(b->divided + 4096) && is_restored_by_mapping(b->divided + 3 * 4096));
    say("other pages are copied", !is_restored_by_mapping(b->divided) &&
                                      !is_restored_by_mapping(b->divided + 2 * 4096) &&
                                      !is_restored_by_mapping(b->divided + 4 * 4096));
    say("a copied block grows",
        all_equal(mremap(b->divided + 4 * 4096, 4096, 4096 << 4, MREMAP_MAYMOVE), 0, 4096 << 4));
    say("heap", strcmp(b->heap, "on the heap") == 0);
    say("large", all_equal(b->large, 'x', 3 << 20));
    say("data", written[0] == 1 && written[2 * 4096] == 2);
    say("relocated data", relocated == &relocated_target);
    say("thread-local data", thread_local_word == 42);
    say("pages of a removed file", strcmp(b->removed + 4096, "in the file") == 0 && b->removed[0] == 'w');
    say("memory that is wiped on fork", all_equal(b->wiped, 0, 4096));
    b->wiped[0] = 1;
    say("memory around a guard page",
        all_equal(b->guarded, 'g', 4096) && all_equal(b->guarded + 8192, 'g', 4096));
    say("a guard page", is_readable(b->guarded + 4096) != b->has_guard);
    say("a file behind a guard page", memcmp(b->guarded_file + 8192, b->behind, sizeof(b->behind)) == 0);
    say("a guard page of a file", is_readable(b->guarded_file + 4096) != b->file_has_guard);
    say("code of the process' own", function_returns(b->code, 5) && is_mapped(b->code, "r-xp"));
    say("code that it can write to", function_returns(b->writable_code, 6) &&
                                         is_mapped(b->writable_code, "rwxp") && ++b->writable_code[1] == 7 &&
                                         function_returns(b->writable_code, 7));
    say("brk", brk_grows(b));
    char *more = malloc(64 << 20);
    say("malloc", more != NULL && memset(more, 1, 64 << 20) == more);
    struct rlimit stack = {0};
    getrlimit(RLIMIT_STACK, &stack);
    unsigned depth = (unsigned)(stack.rlim_cur / 1536);
    say("recursion", depth >= 1024 && recurse(depth) == depth);
}

static void check_kernel(void)
{
    say("vdso", times_agree());
    unsigned processor = ~0U;
    syscall(SYS_getcpu, &processor, NULL, NULL);
    say("rseq", sched_getcpu() == (int)processor && processor < 4096);
    say("signals", signal_works());
    stack_t stack;
    say("alternate stack", sigaltstack(NULL, &stack) == 0 && stack.ss_size == 65536);
    say("robust list", robust_list_set());
    say("thread number", threads_work());
    unsigned short control = 0;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    say("rounding of x87", control == X87_ROUND_UP);
    say("rounding of SSE", (_mm_getcsr() & ~0x3fU) == CSR_ROUND_UP);
    say("fork", forks());
    say("dumpable", prctl(PR_GET_DUMPABLE) == 1);
}

static void check_identity(const struct warm_params *p)
{
    const char *const *argv = (const char *const *)p->argv, *const *envp = (const char *const *)p->envp;
    say("magic", p->magic == WARM_PARAMS_MAGIC);
    say("arguments", p->argc == 3 && strcmp(argv[2], "two words") == 0 && argv[3] == NULL);
    say("environment", p->envc == 1 && strcmp(envp[0], "NAME=value") == 0 && envp[1] == NULL);
    say("program", p->program == WARM_PROGRAM_COMMAND && p->program_index == 2);
    say("random bytes", !all_equal((const char *)p->entropy, 0, sizeof(p->entropy)));
    static const char line[] = "python3\0-c\0two words";
    say("cmdline", file_holds("/proc/self/cmdline", line, sizeof(line)));
    say("environ", file_holds("/proc/self/environ", "NAME=value", sizeof("NAME=value")));
    say("comm", file_holds("/proc/self/comm", "restored\n", 9));
    say("stack's name", file_holds("/proc/self/maps", "[stack]", 7));
    say("heap's name", file_holds("/proc/self/maps", "[heap]", 6));
    say("vdso's name", file_holds("/proc/self/maps", "[vdso]", 6));
    long uid[2] = {AT_UID, getuid()};
    say("auxv", file_holds("/proc/self/auxv", (const char *)uid, sizeof(uid)));
}

/* Install a filter that allows write, close, rt_sigreturn and exit_group only. */
static int check_filtered(void)
{
    static const char good[] = "good a filter is in force\ngood end\n";
    if (syscall(SYS_getppid) == -1 && errno == EXDEV)
        (void)!write(1, good, sizeof(good) - 1);
    _exit(23);
}

static int check_powerless(void)
{
    static const char line[] = "\nCapEff:\t0000000000000000\n";
    say("no capability is left", file_holds("/proc/self/status", line, sizeof(line) - 1));
    say("descriptors are closed", fcntl(3, F_GETFD) < 0 && fcntl(100, F_GETFD) < 0);
    say("end", true);
    return fflush(stdout) == 0 ? 23 : 1;
}

static int check_descriptor(void)
{
    say("a descriptor is open again", fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(3, F_GETFL) == 0100000);
    say("it is where it was", lseek(3, 0, SEEK_CUR) == PARKED_POSITION);
    bool closed = true;
    for (int fd = 4; fd < 256; fd++)
        closed = closed && fcntl(fd, F_GETFD) < 0;
    say("the others are closed", closed);
    say("end", true);
    return fflush(stdout) == 0 ? 23 : 1;
}

static void set_up(struct before *b)
{
    b->heap = strdup("on the heap");
    b->large = malloc(3 << 20);
    memset(b->large, 'x', 3 << 20);
    written[2 * 4096] = 2;
    thread_local_word = 42;
    b->removed = parked_map_removed("in the file", PROT_READ | PROT_WRITE);
    b->removed[0] = 'w';
    b->code = make_function(5, PROT_READ | PROT_EXEC);
    b->writable_code = make_function(6, PROT_READ | PROT_WRITE | PROT_EXEC);
    b->wiped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(b->wiped, 'w', 4096);
    madvise(b->wiped, 4096, MADV_WIPEONFORK);
    make_guards(b);
    b->divided = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(b->divided, 'd', 5 * 4096);
    for (size_t i = 0; i < 2; i++) {
        uint64_t start = (uint64_t)b->divided + (2 * i + 1) * 4096;
        b->ranges[i] = (struct warm_range){start, start + 4096};
    }
    b->list = (struct warm_memory){WARM_MEMORY_MAGIC, 1, 2, (uint64_t)b->ranges};
    signal(SIGUSR1, on_signal);
    signal(SIGPIPE, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    static char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
    _mm_setcsr(CSR_ROUND_UP);
    unsigned short control = X87_ROUND_UP;
    __asm__ volatile("fldcw %0" : : "m"(control));
}

static int be_parked(const char *state)
{
    parked_tester = getppid();
    /* Fork, because a saved process is always a fork: only then every glibc keeps the thread id where the
     * kernel clears it. */
    pid_t pid = fork();
    if (pid != 0) {
        waitpid(pid, NULL, 0);
        return 1;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct before before = {0};
    set_up(&before);
    for (size_t i = 0; i < parked_state_count; i++)
        if (strcmp(parked_states[i].name, state) == 0)
            parked_states[i].make();
    before.brk = sbrk(0);
    pid = getpid();
    if (write(1, &pid, sizeof(pid)) != sizeof(pid))
        return 1;
    const struct warm_params *params = park(&before.list);
    const char *wish = ((const char *const *)params->argv)[1];
    if (strcmp(wish, "filtered") == 0)
        return check_filtered();
    if (strcmp(wish, "powerless") == 0)
        return check_powerless();
    if (strcmp(wish, "descriptor") == 0)
        return check_descriptor();
    check_identity(params);
    check_memory(&before);
    check_kernel();
    say("end", true);
    return fflush(stdout) == 0 ? 23 : 1;
}

/* Runs in the test. */

int parked_open_self(void)
{
    int fd = open(parked_self, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bail_out("open '%s': %s", parked_self, strerror(errno));
    return fd;
}

/* Return the process that parks. Its parent ends with it. */
static pid_t start_parked(const char *state, pid_t *parent)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        bail_out("pipe: %s", strerror(errno));
    *parent = fork();
    if (*parent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ready[1], 1);
        sys_close_range(3, ~0U, 0);
        execl(parked_self, parked_self, "parked", state, NULL);
        _exit(127);
    }
    close(ready[1]);
    pid_t pid;
    if (read(ready[0], &pid, sizeof(pid)) != sizeof(pid))
        bail_out("the process that parks ended");
    close(ready[0]);
    return pid;
}

int parked_dump_with(const char *state, struct dump_request request, struct error *err)
{
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t parent;
    request.pid = start_parked(state, &parent);
    request.root = root;
    request.agent_path = parked_self;
    request.park = SYS_pause;
    request.meta = "meta";
    request.meta_size = 4;
    int ret = warm_dump(&request, err);
    kill(request.pid, SIGKILL);
    waitpid(parent, NULL, 0);
    return ret;
}

int parked_dump(const char *state, int snapshot, struct error *err)
{
    return parked_dump_with(state, (struct dump_request){.out = snapshot}, err);
}

bool parked_is_wanted(int argc, char **argv, int *exit_code)
{
    if (readlink("/proc/self/exe", parked_self, sizeof(parked_self) - 1) < 0)
        bail_out("readlink: %s", strerror(errno));
    if (argc != 3 || strcmp(argv[1], "parked") != 0)
        return false;
    *exit_code = be_parked(argv[2]);
    return true;
}
