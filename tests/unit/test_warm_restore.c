/* warm/dump.h and warm/restore.h: a process is saved, and other processes become it. The test executes itself
 * as the process that parks; its own file stands for the agent's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "unit.h"
#include "warm/dump.h"
#include "warm/image.h"
#include "warm/restore.h"

static char self[4096];

/* Newer than the headers of the oldest supported distribution. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* All exceptions masked, the default otherwise. */
#define CSR_ROUND_UP 0x5f80U
#define X87_ROUND_UP 0x0b7fU

/* ---- the process that parks ---- */

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

/* As the agent does it: a system call of this program's own code, whose result is the restorer's. */
static struct warm_params *park(void)
{
    long result = SYS_pause;
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
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
    char *guarded, *guarded_file; /* three pages; nobody may touch the second, if the kernel sees to that */
    bool has_guard, file_has_guard;
    char behind[4096]; /* the third of the file */
    void *brk;
};

/* A private mapping of a file that is no more. */
static char *map_removed(const char *text, int protection)
{
    char name[] = "/tmp/test-warm.XXXXXX";
    cleanup_fd int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, 8192) < 0 || pwrite(fd, text, strlen(text), 4096) < 0)
        abort();
    char *map = mmap(NULL, 8192, protection, MAP_PRIVATE, fd, 0);
    unlink(name);
    return map != MAP_FAILED ? map : NULL;
}

/* Of memory since Linux 6.13, of files since 6.15, which also tells where they are. */
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

/* A function that returns a number, as a compiler at run time makes it: what calls it need not be able to
 * write to it. */
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

/* The permissions of the area that begins there, of /proc/self/maps. */
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

static void check_memory(const struct before *b)
{
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

/* With write, close, rt_sigreturn and exit_group allowed, and nothing else. */
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

#define POSITION 7

static int check_descriptor(void)
{
    say("a descriptor is open again", fcntl(3, F_GETFD) == FD_CLOEXEC && fcntl(3, F_GETFL) == 0100000);
    say("it is where it was", lseek(3, 0, SEEK_CUR) == POSITION);
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
    b->removed = map_removed("in the file", PROT_READ | PROT_WRITE);
    b->removed[0] = 'w';
    b->code = make_function(5, PROT_READ | PROT_EXEC);
    b->writable_code = make_function(6, PROT_READ | PROT_WRITE | PROT_EXEC);
    b->wiped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(b->wiped, 'w', 4096);
    madvise(b->wiped, 4096, MADV_WIPEONFORK);
    make_guards(b);
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

static void *wait_forever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* What each makes is never undone: the process is killed. */
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
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    if (map_removed("", PROT_READ | PROT_EXEC) == NULL)
        abort();
}
/* As a program may do it whose clocks are of no interest to it. */
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
/* A restartable sequence that is never under way here, but could be where a restorer runs (rseq(2)). The
 * kernel forgets it when the process is scheduled; one that shares its memory does not. */
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
    syscall(SYS_exit, 0); /* no exit handlers: they are the owner's */
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
static void make_locked(void)
{
    mlock(written, sizeof(written));
}
/* What the parent, the test, replaces later. */
static void file_name(char name[static 64], pid_t test)
{
    snprintf(name, 64, "/tmp/test-warm.%d", (int)test);
}
/* The test, of which the process that parks is not a child. */
static pid_t tester;
static void *file_map;
static void make_file(void)
{
    char name[64];
    file_name(name, tester);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 4096) < 0)
        abort();
    file_map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file_map == MAP_FAILED)
        abort();
    close(fd);
}
/* As libffi does it. */
static void make_open_file(void)
{
    char name[64];
    make_file();
    file_name(name, tester);
    if (open(name, O_RDONLY | O_CLOEXEC) != 3 || lseek(3, POSITION, SEEK_SET) != POSITION)
        abort();
}
/* As PROJ does it. */
static void make_read_file(void)
{
    make_open_file();
    if (munmap(file_map, 4096) < 0)
        abort();
}
static void make_nothing(void)
{
}

/* What a process may have, and why it is not saved then. */
static const struct state {
    const char *name, *reason;
    void (*make)(void);
} states[] = {
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
    {"writable code", "is of a file, writable and executable", make_executable},
    {"code that it wrote", "a page of code at", make_code},
    {"code of a file that is gone", "is code of a file that the container has not got", make_removed_code},
    {"a restartable sequence", "it is in a restartable sequence", make_sequence},
    {"the kernel's areas elsewhere", "it has moved the kernel's areas", make_moved},
    {"a pending signal", "a signal is pending", make_pending},
    {"locked memory", "is locked in memory", make_locked},
    {"a large reservation", "is too large", make_large},
};
#define STATE_COUNT (sizeof(states) / sizeof(*states))

static int parked(const char *state)
{
    tester = getppid();
    /* A fork, as what is saved always is: only of these does every glibc keep the number where the kernel
     * clears it. */
    pid_t pid = fork();
    if (pid != 0) {
        waitpid(pid, NULL, 0);
        return 1;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct before before = {0};
    set_up(&before);
    for (size_t i = 0; i < STATE_COUNT; i++)
        if (strcmp(states[i].name, state) == 0)
            states[i].make();
    before.brk = sbrk(0);
    pid = getpid();
    if (write(1, &pid, sizeof(pid)) != sizeof(pid))
        return 1;
    const struct warm_params *params = park();
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

/* ---- the test ---- */

/* Returns the process that parks; its parent ends with it. */
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
        execl(self, self, "parked", state, NULL);
        _exit(127);
    }
    close(ready[1]);
    pid_t pid;
    if (read(ready[0], &pid, sizeof(pid)) != sizeof(pid))
        bail_out("the process that parks ended");
    close(ready[0]);
    return pid;
}

static int dump_with(const char *state, struct dump_request request, struct error *err)
{
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    pid_t parent;
    request.pid = start_parked(state, &parent);
    request.root = root;
    request.agent_path = self;
    request.park = SYS_pause;
    request.meta = "meta";
    request.meta_size = 4;
    int ret = warm_dump(&request, err);
    kill(request.pid, SIGKILL);
    waitpid(parent, NULL, 0);
    return ret;
}

static int dump(const char *state, int image, struct error *err)
{
    return dump_with(state, (struct dump_request){.out = image}, err);
}

struct restored {
    pid_t pid;
    int output, errors;
};

static int open_self(void)
{
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bail_out("open '%s': %s", self, strerror(errno));
    return fd;
}

/* Of all requests: is the snapshot mapped at once, beside the memory of who becomes it, and begun with
 * before? */
static bool beside, begins;

/* `argument` is the second of the command line. */
static struct restore_request make_request(int file, char *argument, const struct restore_finish *finish)
{
    static char *arguments[4], *environment[] = {"NAME=value", NULL};
    static struct image image;
    struct error err = {0};
    image_close(&image);
    if (image_open(file, &image, &err) < 0)
        bail_out("open an image: %s", err.text);
    arguments[0] = "python3";
    arguments[1] = argument;
    arguments[2] = "two words";
    return (struct restore_request){
        .image = &image,
        .file = file,
        .root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
        .agent = open_self(),
        .comm = "restored",
        .argv = arguments,
        .envp = environment,
        .program = WARM_PROGRAM_COMMAND,
        .program_index = 2,
        .beside = beside,
        .error_message = 8,
        .finish = *finish,
    };
}

/* A child that becomes the image's process; `confine` is called in it before. */
static struct restored start_restored(int image, char *argument, int (*confine)(void),
                                      const struct restore_finish *finish)
{
    int output[2], errors[2];
    if (pipe2(output, O_CLOEXEC) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, errors) < 0)
        bail_out("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {0};
        struct restore_request request = make_request(image, argument, finish);
        struct restore *restore = begins ? restore_begin(request.image, image, true) : NULL;
        dup2(output[1], 1);
        if ((confine != NULL && confine() < 0) || restore_prepare(&request, &restore, &err) < 0) {
            dprintf(1, "bad prepare: %s\n", err.text);
            _exit(1);
        }
        restore_go(restore, errors[1]);
    }
    close(output[1]);
    close(errors[1]);
    return (struct restored){pid, output[0], errors[0]};
}

static void finish_restored(struct restored r, const char *how)
{
    char text[8192] = "", error[256] = "";
    size_t used = 0;
    for (ssize_t n; (n = read(r.output, text + used, sizeof(text) - 1 - used)) > 0;)
        used += (size_t)n;
    ssize_t n = recv(r.errors, error, sizeof(error) - 1, 0);
    if (n > 8)
        diag("%s", error + 8);
    int status;
    waitpid(r.pid, &status, 0);
    close(r.output);
    close(r.errors);
    bool end = false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        ok(strncmp(line, "good ", 5) == 0, "%s: %s", how, line + strcspn(line, " ") + 1);
        end = end || strcmp(line, "good end") == 0;
    }
    ok(end, "%s: it came to its end", how);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 23, "%s: its exit code is its own", how);
    if (WIFSIGNALED(status))
        diag("signal %d", WTERMSIG(status));
}

static const struct restore_finish plain = {.close_from = 3};

/* A user that has nothing, as in a container that was confined as far as that goes. */
static int become_nobody(void)
{
    if (setrlimit(RLIMIT_STACK, &(struct rlimit){64 << 20, 64 << 20}) < 0)
        return -1;
    return setgid(65534) < 0 || setuid(65534) < 0 ? -1 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Process 1 of a pid namespace, in a user namespace. */
static int become_first(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        return -1;
    pid_t pid = fork();
    if (pid <= 0)
        return pid;
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

#define ALLOW(call)                                                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void test_filter(int image)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write),
        ALLOW(close),
        ALLOW(rt_sigreturn),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
    const struct restore_finish finish = {.filter = &program, .close_from = 3};
    finish_restored(start_restored(image, "filtered", become_nobody, &finish), "with a filter");

    filter[0].code = 0xffff;
    struct restored r = start_restored(image, "filtered", become_nobody, &finish);
    struct {
        int message, code;
        char text[120];
    } report = {0};
    ok(recv(r.errors, &report, sizeof(report), 0) > 8, "a failure on the way is reported");
    is_int(report.message, 8, "… with the word that was asked for");
    is_int(report.code, -EINVAL, "… and the error");
    is_str(report.text, "warm start: load the seccomp filter: error 022", "… and says what failed");
    int status;
    waitpid(r.pid, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 1, "… and the process ends");
    close(r.output);
    close(r.errors);
}

static void test_finish(int image)
{
    const struct __user_cap_data_struct none[2] = {0};
    const struct restore_finish finish = {.caps = none, .close_from = 3};
    finish_restored(start_restored(image, "powerless", NULL, &finish), "without capabilities");
}

/* A label is written once and its file closed, whatever number the snapshot's own descriptors have. */
static void test_descriptor(void)
{
    cleanup_fd int image = memfd_create("image", MFD_CLOEXEC);
    struct error err = {0};
    char name[64], text[64] = "";
    int label[2];
    file_name(name, getpid());
    unlink(name);
    is_int(dump("an open file that is mapped", image, &err), 0, "a process with an open file is saved: %s",
           err.text);
    if (pipe2(label, O_CLOEXEC) < 0)
        bail_out("pipe: %s", strerror(errno));
    const struct restore_finish finish = {.labels = {{label[1], "a label"}}, .close_from = 3};
    finish_restored(start_restored(image, "descriptor", NULL, &finish), "with an open file");
    close(label[1]);
    ssize_t n = read(label[0], text, sizeof(text) - 1);
    is_str(text, "a label", "a label is written");
    ok(n > 0 && read(label[0], text, sizeof(text)) == 0, "… and its file closed");
    close(label[0]);
    unlink(name);
}

/* Of a template, unless it may have been another one when it was read. */
static void test_open_file(void)
{
    cleanup_fd int image = memfd_create("image", MFD_CLOEXEC);
    struct error err = {0};
    char name[64];
    file_name(name, getpid());
    unlink(name);
    is_int(dump_with("an open file", (struct dump_request){.out = image, .began = 1}, &err), -ENOTSUP,
           "not saved: a template with an open file that has changed since it began");
    unlink(name);
    is_int(dump_with("an open file", (struct dump_request){.out = image, .began = INT64_MAX}, &err), 0,
           "a template with an open file is saved: %s", err.text);
    finish_restored(start_restored(image, "descriptor", NULL, &plain), "with an open file of a template");
    struct restore *restore = NULL;
    struct restore_request request = make_request(image, "-c", &plain);
    ok(truncate(name, 1) == 0, "the file is changed");
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "the snapshot is stale then");
    ok(strstr(err.text, name) != NULL, "the file is named");
    unlink(name);
    close(request.root);
    close(request.agent);
}

/* Nothing of what restore_prepare did is left in this process when it fails. */
static void test_stale(void)
{
    cleanup_fd int image = memfd_create("image", MFD_CLOEXEC);
    struct error err = {0};
    char name[64];
    file_name(name, getpid());
    unlink(name);
    is_int(dump("a file", image, &err), 0, "a process with a mapped file is saved");
    struct restore *restore = NULL;
    struct restore_request request = make_request(image, "-c", &plain);
    cleanup_fd int file = open(name, O_WRONLY | O_CLOEXEC);
    ok(write(file, "x", 1) == 1, "the file is changed");
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "the snapshot is stale then");
    ok(strstr(err.text, name) != NULL && strstr(err.text, "is another one") != NULL, "the file is named");
    unlink(name);
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "it is stale without the file");
    ok(strstr(err.text, name) != NULL && strstr(err.text, "is gone") != NULL, "the file is named");
    mkfifo(name, 0600);
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "a FIFO in its place does not hang");
    unlink(name);
    close(request.root);
    close(request.agent);
}

/* The addresses of this process, without what the C library takes when it likes. */
static size_t count_mappings(void)
{
    size_t count = 0;
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "re");
    if (f == NULL)
        bail_out("/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL)
        count += strstr(line, "[heap]") == NULL;
    fclose(f);
    return count;
}

/* Where the snapshot has an area, and this process nothing. */
static void *find_address(int file)
{
    struct image image;
    struct error err = {0};
    if (image_open(file, &image, &err) < 0)
        bail_out("open an image: %s", err.text);
    void *address = (void *)image.areas[image.area_count / 2].start;
    image_close(&image);
    return address;
}

static void *take_address(void *address)
{
    void *taken = mmap(address, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (taken == MAP_FAILED)
        bail_out("take an address: %s", strerror(errno));
    return taken;
}

static void give_up(struct restore **restore)
{
    restore_free(*restore);
    *restore = NULL;
}

/* What is prepared beside can be given up, and what lies in the way stays as it is: the exchange is later
 * then. */
static void test_beside(int image)
{
    struct restore *restore = NULL;
    struct error err = {0};
    struct restore_request request = make_request(image, "-c", &plain);
    /* With the first number, glibc since 2.41 maps the pages that the vDSO's getrandom works in, for ever. */
    unsigned char number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        bail_out("getrandom: %s", strerror(errno));
    size_t before = count_mappings();
    request.beside = false;
    is_int(restore_prepare(&request, &restore, &err), 0, "a snapshot is prepared");
    ok(!restore_is_mapped(restore), "it is not mapped before it has to be");
    give_up(&restore);
    request.beside = true;
    is_int(restore_prepare(&request, &restore, &err), 0, "another is prepared beside this process");
    ok(restore_is_mapped(restore), "it is mapped");
    ok(count_mappings() > before + 5, "its areas are there");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "given up, all of it is gone");

    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int *taken = take_address(find_address(image));
    *taken = 4711;
    before = count_mappings();
    is_int(restore_prepare(&request, &restore, &err), 0, "prepared where something is in the way");
    ok(!restore_is_mapped(restore), "it is not mapped then");
    is_int(*taken, 4711, "what is in the way is unharmed");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "nothing of the attempt is left");
    finish_restored(start_restored(image, "-c", NULL, &plain), "with something in the way");
    munmap(taken, page);
    close(request.root);
    close(request.agent);
}

/* Has this process a page of its own at the address? */
static bool is_private(uint64_t address)
{
    uint64_t entry = 0, place = address / (uint64_t)sysconf(_SC_PAGESIZE) * sizeof(entry);
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t n = pread(fd, &entry, sizeof(entry), (off_t)place);
    close(fd);
    return n == (ssize_t)sizeof(entry) && (entry >> 63 & 1) != 0 && (entry >> 61 & 1) == 0;
}

/* A page of memory that the image has. */
static struct image_write writable_page(const struct image *image)
{
    for (size_t i = 0; i < image->run_count; i++) {
        const struct image_area *a = image_area_at(image, image->runs[i].address, 1);
        if (a->flags == 0 && a->prot == (PROT_READ | PROT_WRITE))
            return (struct image_write){.address = image->runs[i].address, .pages = 1};
    }
    return (struct image_write){0};
}

/* The write set is copied once, whenever the caller wants it to be. */
static void test_copied(int file)
{
    struct error err = {0};
    char here[1];
    struct iovec one = {(void *)((uintptr_t)here & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1)), 1};
    if (syscall(SYS_process_madvise, -10000, &one, 1, 23, 0) < 0 && /* PIDFD_SELF, MADV_POPULATE_WRITE */
        (errno == EBADF || errno == EINVAL || errno == ENOSYS)) {
        skip("before Linux 6.15 a process cannot ask for copies of its pages");
        return;
    }
    struct restore_request request = make_request(file, "-c", &plain);
    struct image image = *request.image;
    struct image_write page = writable_page(&image);
    image.writes = &page;
    image.write_count = 1;
    request.image = &image;
    for (int i = 0; i < 4; i++) {
        bool early = (i & 1) != 0, at_all = (i & 2) != 0;
        request.prefetch = at_all;
        struct restore *restore = restore_begin(&image, file, early);
        ok(restore != NULL && is_private(page.address) == early, "begun: the page is %s",
           early ? "copied" : "shared");
        is_int(restore_prepare(&request, &restore, &err), 0, "prepared");
        ok(restore_is_mapped(restore) && is_private(page.address) == (early || at_all), "then it is %s",
           early || at_all ? "copied" : "shared");
        give_up(&restore);
    }
    close(request.root);
    close(request.agent);
}

/* What was begun is gone on with, or is nothing to what follows. */
static void test_begun(int file)
{
    struct error err = {0};
    struct restore_request request = make_request(file, "-c", &plain);
    const size_t before = count_mappings(), page = (size_t)sysconf(_SC_PAGESIZE);
    struct restore *restore = restore_begin(request.image, file, true);
    ok(restore != NULL && count_mappings() > before, "a part of a snapshot is mapped");
    ok(!restore_is_mapped(restore), "not all of it");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "given up, it is gone");

    restore = restore_begin(request.image, file, true);
    is_int(restore_prepare(&request, &restore, &err), 0, "what was begun is prepared");
    ok(restore_is_mapped(restore), "… and mapped");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "given up, all of it is gone");

    struct image_header header = *request.image->header;
    struct image image = *request.image;
    image.header = &header;
    header.host.processor ^= 1;
    ok(restore_begin(&image, file, true) == NULL, "nothing is begun on another processor");
    is_int((int)count_mappings(), (int)before, "nothing is mapped");
    struct restore_request elsewhere = request;
    elsewhere.image = &image;
    is_int(restore_prepare(&elsewhere, &restore, &err), -ENOTSUP, "nor prepared");
    is_str(err.text, "the snapshot was made on another processor", "the reason is given");

    struct rlimit limit;
    getrlimit(RLIMIT_DATA, &limit);
    restore = restore_begin(request.image, file, true);
    setrlimit(RLIMIT_DATA, &(struct rlimit){1 << 20, limit.rlim_max});
    is_int(restore_prepare(&request, &restore, &err), -ENOMEM, "what was begun cannot be prepared");
    ok(restore == NULL, "it is given up");
    setrlimit(RLIMIT_DATA, &limit);
    is_int((int)count_mappings(), (int)before, "nothing of it is left");

    /* Once an area of a file is in the way, which is no part of the beginning, and once each that may be. */
    for (size_t i = 0; i < request.image->area_count; i++) {
        const struct image_area *a = &request.image->areas[i];
        if ((a->flags & IMAGE_AREA_STACK) != 0)
            continue;
        void *taken = take_address((void *)a->start);
        bool same = count_mappings() == before + 1;
        bool begun = (restore = restore_begin(request.image, file, true)) != NULL;
        bool prepared = restore_prepare(&request, &restore, &err) == 0;
        ok(prepared && !restore_is_mapped(restore), "something at %#lx: mapped later%s",
           (unsigned long)a->start, begun ? ", though begun" : "");
        give_up(&restore);
        ok(!same || count_mappings() == before + 1, "nothing of it is left, and all of the other");
        munmap(taken, page);
    }
    close(request.root);
    close(request.agent);
}

static void test_limits(int image)
{
    struct restore_request request = make_request(image, "-c", &plain);
    struct restore *restore = NULL;
    struct error err = {0};
    struct rlimit before;
    getrlimit(RLIMIT_DATA, &before);
    setrlimit(RLIMIT_DATA, &(struct rlimit){1 << 20, before.rlim_max});
    is_int(restore_prepare(&request, &restore, &err), -ENOMEM, "a limit that is too small is seen before");
    is_str(err.text, "RLIMIT_DATA is smaller than the snapshot", "it is named");
    setrlimit(RLIMIT_DATA, &before);
    close(request.root);
    close(request.agent);
}

static void test_restore(int image)
{
    finish_restored(start_restored(image, "-c", NULL, &plain), "restored");
    struct restored one = start_restored(image, "-c", NULL, &plain);
    struct restored two = start_restored(image, "-c", NULL, &plain);
    finish_restored(one, "one of two");
    finish_restored(two, "the other");
    if (geteuid() == 0)
        finish_restored(start_restored(image, "-c", become_nobody, &plain), "as nobody");
    else
        skip("another user: needs root");
    finish_restored(start_restored(image, "-c", become_first, &plain), "in a user namespace");
    test_filter(image);
    test_finish(image);
    test_descriptor();
    test_open_file();
    test_limits(image);
}

/* Whoever renews the sequence needs a processor between the stop of the other and the end of the dump, and
 * does not get one every time. */
#define MOST_TRIES 50

static int try_to_dump(const struct state *state, struct error *err)
{
    int ret = 0;
    for (int tries = state->make == make_sequence ? MOST_TRIES : 1; ret == 0 && tries > 0; tries--) {
        cleanup_fd int image = memfd_create("image", MFD_CLOEXEC);
        ret = dump(state->name, image, err);
    }
    return ret;
}

static void test_refusals(void)
{
    for (size_t i = 0; i < STATE_COUNT; i++) {
        if (states[i].reason == NULL)
            continue;
        if (states[i].make == make_sequence && (&__rseq_size == NULL || __rseq_size == 0)) {
            skip("%s: the C library has none", states[i].name);
            continue;
        }
        struct error err = {0};
        char name[64];
        file_name(name, getpid());
        is_int(try_to_dump(&states[i], &err), -ENOTSUP, "not saved: a process with %s", states[i].name);
        if (!ok(strstr(err.text, states[i].reason) != NULL, "the reason is given"))
            diag("%s", err.text);
        unlink(name);
    }
}

static void test_demands(void)
{
    cleanup_fd int refused = memfd_create("image", MFD_CLOEXEC);
    struct error err = {0};
    struct dump_request small = {.out = refused, .limit = 8192};
    is_int(dump_with("nothing", small, &err), -EFBIG, "not saved: a process that is larger than allowed");
    ok(strstr(err.text, "MiB, and 0 are allowed") != NULL, "the reason is given");
    cleanup_fd int file = open_self();
    size_t size = (size_t)lseek(file, 0, SEEK_END);
    char *agent = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    struct stat elsewhere;
    stat("/", &elsewhere);
    is_int(dump_with("nothing", (struct dump_request){.out = refused, .pid_namespace = &elsewhere}, &err),
           -ESRCH, "not saved: a process that is not in the pid namespace of the one that was meant");
    struct dump_request same = {.out = refused, .agent = agent, .agent_size = size};
    is_int(dump_with("nothing", same, &err), 0, "saved: a process with the agent that is expected");
    memset(agent, 0, size);
    is_int(dump_with("nothing", same, &err), -ENOTSUP, "not saved: a process with another agent");
    ok(strstr(err.text, "another version of the runtime") != NULL, "the reason is given");
    munmap(agent, size);
}

int main(int argc, char **argv)
{
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        bail_out("readlink: %s", strerror(errno));
    if (argc == 3 && strcmp(argv[1], "parked") == 0)
        return parked(argv[2]);
#ifdef __SANITIZE_ADDRESS__
    skip("a process of AddressSanitizer has more memory than can be saved");
    return done_testing();
#endif
    struct error err = {0};
    cleanup_fd int image = memfd_create("image", MFD_CLOEXEC);
    if (is_int(dump("nothing", image, &err), 0, "a process is saved")) {
        test_restore(image);
        beside = true;
        test_restore(image);
        begins = true;
        test_restore(image);
        begins = false;
        test_beside(image);
        test_copied(image);
        test_begun(image);
    } else {
        diag("%s", err.text);
    }
    test_stale();
    test_refusals();
    test_demands();
    return done_testing();
}
