/* Take threads that libraries have started along into a fork that is saved. fork(2) leaves them behind, and a
 * library that waits for one of them waits for ever. So the agent sends each thread a signal, and the thread
 * stays in the handler while the process is copied. The signal's frame, on the thread's own stack, contains
 * the thread's registers. In the copy, a new thread returns to that frame by rt_sigreturn(2). The library
 * sees a wait that a signal has interrupted. The kernel keeps little else of a thread of glibc: its TLS area,
 * the address of its thread id, the list of robust mutexes, restartable sequences, and its name. The thread
 * id changes.
 *
 * Only threads that wait in a system call come along. Such a thread holds no lock of the C library, which the
 * process may need before the thread exists again. Threads of Python do not come along, because the child of
 * a fork forgets them.
 */
#include "warm/agent/threads.h"

#include <asm/errno.h>
#include <asm/prctl.h>
#include <asm/sigcontext.h>
#include <asm/stat.h>
#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/time_types.h>
#include <stdbool.h>

#include <asm/ucontext.h>

#include "warm/agent/loaded.h"
#include "warm/agent/packages.h"
#include "warm/agent/system.h"

/* The C library uses this signal to change the user of all threads (nptl(7)), so no thread blocks it. */
#define HOLD_SIGNAL 33

enum {
    THREADS_MAX = 64,
    NUMBERS = 8192, /* thread ids that are tried, from the process id on */
    TRIES = 100,    /* until all threads rest */
    MILLISECOND = 1000000,
    PATIENCE = 1000,    /* milliseconds, until all have answered */
    AFFINITY_SIZE = 128 /* bytes, for 1024 CPUs */
};

/* The properties that a new thread inherits from the thread that starts it. */
struct traits {
    long policy, priority;
    long size; /* of the CPU set, in bytes */
    uint8_t processors[AFFINITY_SIZE];
};

enum state { RESTS, RUNS, OWN_STACK, OWN_PRIORITY, UNKNOWN };

static const char *const reasons[] = {
    [RUNS] = "does not come to rest",
    [OWN_STACK] = "has a stack of its own for signals", /* as threads of Go, which store each other's ids */
    [OWN_PRIORITY] = "has a priority of its own",
    [UNKNOWN] = "is not a thread of glibc, or a system call about it is refused",
};

#define UNKNOWN_COUNT 0xffffffffU

static const char SILENT[] = "threads cannot be stopped, because one does not answer a signal";

static struct thread {
    const struct ucontext *context;
    uintptr_t area, robust_list;
    uintptr_t number_place; /* where the C library keeps the thread id */
    uintptr_t cleared;      /* the word that the kernel sets to zero at the thread's end */
    size_t robust_size;
    char name[16];
    struct traits traits;
    int number;
    enum state state;
} held[THREADS_MAX];

static struct {
    uint32_t turn;               /* when it changes, all threads continue */
    uint32_t asked, came, noted; /* threads: signalled, in the handler, recorded in `held` */
    uint32_t saved;              /* threads saved by the fork that made this process */
    uint32_t begun;              /* threads of these that have begun */
    bool open;                   /* the handler records threads */
    bool silent;                 /* a thread has not answered, and may do so at any time */
    struct traits traits;        /* of the thread that asks */
    struct sigaction before;
} round;

static void sleep_millisecond(void)
{
    const struct __kernel_timespec time = {0, MILLISECOND};
    system_call(__NR_nanosleep, (long)&time, 0, 0, 0);
}

/* Find threads also without /proc, which may be missing or forbidden (Landlock): ask the kernel for each id
 * that a thread can have. This works because the process began in a pid namespace of its own. Returns the
 * next id after `number`, 0 if there is none, or a negative errno. */
static long next_thread(long process, long number)
{
    for (number++; number <= process + NUMBERS; number++) {
        long ret = system_call(__NR_tgkill, process, number, 0, 0);
        if (ret != -ESRCH)
            return ret < 0 ? ret : number;
    }
    return 0;
}

/* Return the number of other threads by the links of their directory (proc(5)), or UNKNOWN_COUNT. */
static uint32_t known_threads(void)
{
    enum { OWN_LINKS = 3 }; /* of the directory, and of the calling thread's */
    static const char path[] = "/proc/self/task";
    struct statfs system;
    struct stat st;
    if (system_call(__NR_statfs, (long)path, (long)&system, 0, 0) != 0 || system.f_type != PROC_SUPER_MAGIC ||
        system_call(__NR_stat, (long)path, (long)&st, 0, 0) != 0 || st.st_nlink < OWN_LINKS)
        return UNKNOWN_COUNT;
    return (uint32_t)st.st_nlink - OWN_LINKS;
}

static uint32_t count_threads(long process)
{
    uint32_t count = known_threads();
    if (count != UNKNOWN_COUNT)
        return count;
    count = 0;
    for (long number = process; (number = next_thread(process, number)) > 0; count++)
        ;
    return count;
}

/* Return where glibc keeps the id of a thread, in struct pthread. It is the word that the kernel sets to zero
 * at the thread's end. Since 2.43 that word is the thread's state. There the id is still before the head of
 * the robust mutexes, with a pointer and a word between them. 0: in neither place. */
static uintptr_t place_of_number(int number, uintptr_t cleared, uintptr_t robust_list)
{
    enum { BEFORE_ROBUST_LIST = 16 };
    if (cleared != 0 && *(const int *)cleared == number)
        return cleared;
    const uintptr_t place = robust_list - BEFORE_ROBUST_LIST;
    return robust_list != 0 && *(const int *)place == number ? place : 0;
}

static void read_traits(struct traits *out)
{
    out->policy = system_call(__NR_sched_getscheduler, 0, 0, 0, 0);
    out->priority = system_call(__NR_getpriority, PRIO_PROCESS, 0, 0, 0);
    out->size = system_call(__NR_sched_getaffinity, 0, sizeof(out->processors), (long)out->processors, 0);
}

static bool same_processors(const struct traits *a, const struct traits *b)
{
    bool same = a->size == b->size;
    for (long i = 0; same && i < a->size; i++)
        same = a->processors[i] == b->processors[i];
    return same;
}

/* Return whether the thread was in a system call that the signal has interrupted, or that starts again after
 * it. A call that starts again looks like a call that the thread has not made yet. So of these only futex(2)
 * counts, in which threads wait. */
static bool waits(const struct sigcontext *c)
{
    const uint8_t *next = (const uint8_t *)c->rip; /* instruction */
    if (next[-2] == 0x0f && next[-1] == 0x05 && (long)c->rax == -EINTR)
        return true;
    return next[0] == 0x0f && next[1] == 0x05 && c->rax == __NR_futex;
}

static enum state state_of(const struct thread *t)
{
    if (!waits(&t->context->uc_mcontext))
        return RUNS;
    if (t->area == 0 || t->cleared == 0 || t->number_place == 0 || t->robust_list == 0)
        return UNKNOWN;
    if (t->context->uc_stack.ss_flags != SS_DISABLE)
        return OWN_STACK;
    const struct traits *first = &round.traits;
    return t->traits.policy == first->policy && t->traits.priority == first->priority ? RESTS : OWN_PRIORITY;
}

/* The handler: record the state of the thread, and stay until the turn changes. */
static void stay(int signal, siginfo_t *info, struct ucontext *context)
{
    (void)signal;
    (void)info;
    const uint32_t turn = __atomic_load_n(&round.turn, __ATOMIC_ACQUIRE);
    if (!__atomic_load_n(&round.open, __ATOMIC_ACQUIRE))
        return;
    struct thread *t = &held[__atomic_fetch_add(&round.came, 1, __ATOMIC_RELAXED)];
    *t = (struct thread){.context = context, .number = (int)system_call(__NR_gettid, 0, 0, 0, 0)};
    system_call(__NR_arch_prctl, ARCH_GET_FS, (long)&t->area, 0, 0);
    system_call(__NR_prctl, PR_GET_TID_ADDRESS, (long)&t->cleared, 0, 0);
    system_call(__NR_get_robust_list, 0, (long)&t->robust_list, (long)&t->robust_size, 0);
    t->number_place = place_of_number(t->number, t->cleared, t->robust_list);
    system_call(__NR_prctl, PR_GET_NAME, (long)t->name, 0, 0);
    read_traits(&t->traits);
    t->state = state_of(t);
    __atomic_fetch_add(&round.noted, 1, __ATOMIC_RELEASE);
    system_call(__NR_futex, (long)&round.noted, FUTEX_WAKE_PRIVATE, 1, 0);
    while (__atomic_load_n(&round.turn, __ATOMIC_ACQUIRE) == turn)
        system_call(__NR_futex, (long)&round.turn, FUTEX_WAIT_PRIVATE, turn, 0);
}

/* Return from the handler, by rt_sigreturn(2) of the frame that the kernel has put on the stack. */
void threads_return(void) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".globl threads_return\n"
        ".hidden threads_return\n"
        "threads_return:\n\t"
        "mov $15, %eax\n\t"
        "syscall\n\t"
        "ud2\n");

/* Let all threads continue. Give the signal back to the C library, unless a silent thread may still get it.
 */
static void release(void)
{
    __atomic_store_n(&round.open, false, __ATOMIC_RELEASE);
    __atomic_fetch_add(&round.turn, 1, __ATOMIC_RELEASE);
    system_call(__NR_futex, (long)&round.turn, FUTEX_WAKE_PRIVATE, THREADS_MAX, 0);
    if (!round.silent)
        system_call(__NR_rt_sigaction, HOLD_SIGNAL, (long)&round.before, 0, sizeof(sigset_t));
}

/* Make all other threads stay in the handler. Returns NULL or the reason why that failed. Some may stay even
 * then. */
static const char *stop(long process)
{
    const struct sigaction action = {
        .sa_handler = (__sighandler_t)(uintptr_t)stay,
        .sa_flags = SA_SIGINFO | SA_RESTART | SA_RESTORER,
        .sa_restorer = threads_return,
        .sa_mask = ~0UL,
    };
    if (round.silent)
        return SILENT;
    round.asked = round.came = round.noted = 0;
    read_traits(&round.traits);
    __atomic_store_n(&round.open, true, __ATOMIC_RELEASE);
    system_call(__NR_rt_sigaction, HOLD_SIGNAL, (long)&action, (long)&round.before, sizeof(sigset_t));
    long number = process;
    uint32_t count = 0, noted;
    const uint32_t known = known_threads();
    while (count < known && (number = next_thread(process, number)) > 0 && count++ < THREADS_MAX)
        round.asked += system_call(__NR_tgkill, process, number, HOLD_SIGNAL, 0) == 0;
    if (number < 0)
        return "threads cannot be found, because tgkill(2) is refused";
    const struct __kernel_timespec time = {0, MILLISECOND};
    for (int i = 0; (noted = __atomic_load_n(&round.noted, __ATOMIC_ACQUIRE)) < round.asked; i++) {
        if (i == PATIENCE) {
            round.silent = true;
            return SILENT;
        }
        /* A thread may have ended before it got the signal. */
        if (system_call(__NR_futex, (long)&round.noted, FUTEX_WAIT_PRIVATE, noted, (long)&time) ==
                -ETIMEDOUT &&
            (count = count_threads(process)) < round.asked)
            round.asked = count;
    }
    return count > THREADS_MAX ? "the imports start more threads than can be saved" : NULL;
}

/* Return whether the last component of the path contains the word. */
static bool file_has(const char *path, const char *word)
{
    bool found = false;
    for (; path != NULL && *path != '\0'; path++) {
        size_t i = 0;
        while (word[i] != '\0' && path[i] == word[i])
            i++;
        found = *path != '/' && (found || word[i] == '\0');
    }
    return found;
}

/* Return whether its library would miss this thread after a fork(2). */
static bool is_stranger(const struct thread *t)
{
    const char *library = library_of_thread(t->robust_list);
    for (size_t i = 0; i < sizeof(fork_aware) / sizeof(fork_aware[0]); i++)
        if (file_has(library, fork_aware[i]))
            return false;
    return true;
}

/* Return the reason why the threads in the handler cannot be copied, and one such thread. NULL: they can, or
 * none of them is a stranger. */
static const char *judge(long process, const struct thread **culprit, bool *strangers)
{
    enum state worst = RESTS;
    for (uint32_t i = 0; i < round.noted; i++) {
        *strangers |= is_stranger(&held[i]);
        if (held[i].state != RESTS) {
            worst = held[i].state;
            *culprit = &held[i];
        }
    }
    if (!*strangers)
        return NULL;
    if (PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) != NULL) {
        *culprit = NULL;
        return "the imports start a thread of Python, which would be missing";
    }
    if (worst == RESTS && count_threads(process) > round.asked)
        worst = RUNS; /* a thread began meanwhile */
    return reasons[worst];
}

/* Make all other threads stay, if one of them is a stranger and all rest. Returns NULL or a reason, as
 * judge(). */
static const char *hold(const struct thread **culprit, bool *strangers)
{
    const long process = system_call(__NR_getpid, 0, 0, 0, 0);
    for (int i = 0;; i++) {
        *culprit = NULL;
        *strangers = false;
        const char *reason = stop(process);
        if (reason == NULL)
            reason = judge(process, culprit, strangers);
        if (reason == NULL && *strangers)
            return NULL;
        release();
        if (reason != reasons[RUNS] || i == TRIES)
            return reason;
        sleep_millisecond();
    }
}

PyObject *rest_threads(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    const struct thread *culprit;
    bool strangers;
    const char *reason = hold(&culprit, &strangers);
    if (reason != NULL)
        return Py_BuildValue("zzs", culprit != NULL ? culprit->name : NULL,
                             culprit != NULL ? library_of_thread(culprit->robust_list) : NULL, reason);
    if (strangers)
        release();
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* Sort the threads by id, because they must start in the order in which they first started. They were
 * recorded in the order in which they entered the handler. */
static void sort_by_number(void)
{
    for (uint32_t i = 1; i < round.noted; i++)
        for (uint32_t k = i; k > 0 && held[k].number < held[k - 1].number; k--) {
            const struct thread t = held[k];
            held[k] = held[k - 1];
            held[k - 1] = t;
        }
}

int threads_fork(void)
{
    const struct thread *culprit;
    bool strangers;
    if (hold(&culprit, &strangers) != NULL)
        return -EBUSY;
    int pid;
    if (!strangers) {
        pid = fork();
        return pid < 0 ? -EAGAIN : pid;
    }
    sort_by_number();
    /* Set the state of the calling thread in the child as fork(3) does. */
    uintptr_t cleared = 0, robust_list = 0;
    size_t robust_size = 0;
    system_call(__NR_prctl, PR_GET_TID_ADDRESS, (long)&cleared, 0, 0);
    system_call(__NR_get_robust_list, 0, (long)&robust_list, (long)&robust_size, 0);
    const int number = (int)system_call(__NR_gettid, 0, 0, 0, 0);
    const uintptr_t place = place_of_number(number, cleared, robust_list);
    if (place == 0) {
        release();
        return -EBUSY;
    }
    const long flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    pid = (int)system_call(__NR_clone, flags, 0, 0, (long)place);
    if (pid == 0) {
        system_call(__NR_set_robust_list, (long)robust_list, (long)robust_size, 0, 0);
        round.saved = round.noted;
    }
    release(); /* in the child there is no other thread */
    return pid < 0 ? -EAGAIN : pid;
}

/* The restartable sequences that glibc registers for each thread since 2.35: their offset from the thread's
 * area, and their size in bytes. The kernel wants a multiple of 32. Size 0: glibc registers none. */
__attribute__((weak)) extern const ptrdiff_t __rseq_offset;
__attribute__((weak)) extern const unsigned __rseq_size;
#define RSEQ_LINE      32
#define RSEQ_SIGNATURE 0x53053053

static void register_sequences(uintptr_t area)
{
    const unsigned size = &__rseq_size != NULL ? __rseq_size : 0;
    if (size > 0)
        system_call(__NR_rseq, (long)(area + (uintptr_t)__rseq_offset),
                    (size + RSEQ_LINE - 1) / RSEQ_LINE * RSEQ_LINE, 0, RSEQ_SIGNATURE);
}

/* Set up a new thread, on the stack that it takes over, below everything on it. */
static const struct ucontext *begin(const struct thread *t)
{
    const struct ucontext *context = t->context;
    system_call(__NR_set_robust_list, (long)t->robust_list, (long)t->robust_size, 0, 0);
    system_call(__NR_prctl, PR_SET_NAME, (long)t->name, 0, 0);
    register_sequences(t->area);
    /* An error is ignored: if these CPUs are not available, the thread runs on others. */
    if (!same_processors(&t->traits, &round.traits))
        system_call(__NR_sched_setaffinity, 0, t->traits.size, (long)t->traits.processors, 0);
    __atomic_fetch_add(&round.begun, 1, __ATOMIC_RELEASE);
    system_call(__NR_futex, (long)&round.begun, FUTEX_WAKE_PRIVATE, 1, 0);
    return context;
}

/* Clone a thread as pthread_create(3) does, but let it continue at the saved frame. Returns its id or a
 * negative errno. */
static long start(const struct thread *t)
{
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD |
                       CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    long result;
    register uintptr_t r10 __asm__("r10");
    register uintptr_t r8 __asm__("r8");
    r10 = t->cleared;
    r8 = t->area;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov %[thread], %%rdi\n\t"
                     "call *%[begin]\n\t"
                     "mov %%rax, %%rsp\n\t"
                     "jmp threads_return\n"
                     "1:"
                     : "=a"(result)
                     : "a"(__NR_clone), "D"(flags), "S"(t->context), "d"(t->number_place), "r"(r10),
                       "r"(r8), [thread] "b"(t), [begin] "r"(begin)
                     : "rcx", "r11", "memory");
    return result;
}

int threads_start(void)
{
    const uint32_t count = round.saved;
    uint32_t begun;
    if (count == 0)
        return 0; /* without a write, which would copy a page */
    round.saved = round.begun = 0;
    for (uint32_t i = 0; i < count; i++) {
        long number = start(&held[i]);
        if (number < 0)
            return (int)number;
    }
    /* Wait until all have begun. Then a program finds their names, and a new round may overwrite `held`. */
    while ((begun = __atomic_load_n(&round.begun, __ATOMIC_ACQUIRE)) < count)
        system_call(__NR_futex, (long)&round.begun, FUTEX_WAIT_PRIVATE, begun, 0);
    return 0;
}
