/* Threads that libraries have started, in a fork that is saved. fork(2) leaves them behind, and who waits for
 * one then waits for ever. Here each is sent a signal, and stays in its handler while the process is copied.
 * The signal's frame, on the thread's own stack, is all that the kernel knows of where the thread was: in the
 * copy, a new thread takes it up by rt_sigreturn(2) and goes on from there. The library sees a wait that a
 * signal has interrupted. What else the kernel keeps of a thread of glibc is little: its area, where its
 * number is to be cleared, the list of robust mutexes, restartable sequences, the name. The number is another
 * one.
 *
 * Only who waits in a system call comes along: such a thread holds no lock of the C library, which the
 * process may need before the thread is there again. Python's own do not: the child of a fork forgets them.
 */
#include "warm/agent/threads.h"

#include <asm/errno.h>
#include <asm/prctl.h>
#include <asm/sigcontext.h>
#include <asm/unistd.h>
#include <linux/futex.h>
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

/* The C library's own, for changing the user of all threads (nptl(7)): it lets none of them block it. */
#define HOLD_SIGNAL 33

enum {
    THREADS_MAX = 64,
    NUMBERS = 8192, /* that threads may have got */
    TRIES = 100,    /* until all rest */
    MILLISECOND = 1000000,
    PATIENCE = 1000,    /* milliseconds, until all have answered */
    AFFINITY_SIZE = 128 /* bytes: of 1024 processors */
};

/* What a new thread has of the one that starts it. */
struct traits {
    long policy, priority;
    long size; /* bytes, of the set */
    uint8_t processors[AFFINITY_SIZE];
};

enum state { RESTS, RUNS, OWN_STACK, OWN_PRIORITY, UNKNOWN };

static const char *const reasons[] = {
    [RUNS] = "does not come to rest",
    [OWN_STACK] = "has a stack of its own for signals", /* as Go's, which know each other by number */
    [OWN_PRIORITY] = "has a priority of its own",
    [UNKNOWN] = "is not one of glibc, or a system call about it is refused",
};

static const char SILENT[] = "threads cannot be stopped, for one does not answer a signal";

static struct thread {
    const struct ucontext *context;
    uintptr_t area, robust_list;
    uintptr_t number_place; /* where the C library keeps the number */
    uintptr_t cleared;      /* what the kernel sets to zero at the thread's end */
    size_t robust_size;
    char name[16];
    struct traits traits;
    int number;
    enum state state;
} held[THREADS_MAX];

static struct {
    uint32_t turn;               /* another one: all go on */
    uint32_t asked, came, noted; /* threads: signalled, in the handler, written down */
    uint32_t saved;              /* by the fork that this process has come from */
    uint32_t begun;              /* of these */
    bool open;                   /* the handler is for those that are asked */
    bool silent;                 /* one has not answered, and may do so any time */
    struct traits traits;        /* of the thread that asks */
    struct sigaction before;
} round;

static void sleep_millisecond(void)
{
    const struct __kernel_timespec time = {0, MILLISECOND};
    system_call(__NR_nanosleep, (long)&time, 0, 0, 0);
}

/* There may be no /proc, or none that may be looked at (Landlock): so the kernel is asked for each number
 * that a thread may have got since this process began, in a pid namespace of its own. Returns the next one
 * after `number`, 0: there is none, or a negative errno. */
static long next_thread(long process, long number)
{
    for (number++; number <= process + NUMBERS; number++) {
        long ret = system_call(__NR_tgkill, process, number, 0, 0);
        if (ret != -ESRCH)
            return ret < 0 ? ret : number;
    }
    return 0;
}

static uint32_t count_threads(long process)
{
    uint32_t count = 0;
    for (long number = process; (number = next_thread(process, number)) > 0; count++)
        ;
    return count;
}

/* Where glibc has the number of a thread, in struct pthread: in the word that the kernel sets to zero in the
 * end, and since 2.43, where that one is the thread's state, still in front of the head of the robust
 * mutexes, with a pointer and a word between them. 0: in neither. */
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

/* Was it in a system call that has ended because of the signal, or begins again after it? The latter is told
 * from one that is about to be made by its number: of those that begin again, threads wait in this one. */
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

/* The handler: write down what there is to know, and stay until the turn is over. */
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

/* The handler's way back: rt_sigreturn(2) of what the kernel has put on the stack. */
void threads_return(void) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".globl threads_return\n"
        ".hidden threads_return\n"
        "threads_return:\n\t"
        "mov $15, %eax\n\t"
        "syscall\n\t"
        "ud2\n");

/* All go on, and the signal is the C library's again, unless somebody may still get it. */
static void release(void)
{
    __atomic_store_n(&round.open, false, __ATOMIC_RELEASE);
    __atomic_fetch_add(&round.turn, 1, __ATOMIC_RELEASE);
    system_call(__NR_futex, (long)&round.turn, FUTEX_WAKE_PRIVATE, THREADS_MAX, 0);
    if (!round.silent)
        system_call(__NR_rt_sigaction, HOLD_SIGNAL, (long)&round.before, 0, sizeof(sigset_t));
}

/* Have all others stay, whatever they do. Returns NULL or why it cannot be; then, too, some may stay. */
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
    while ((number = next_thread(process, number)) > 0 && count++ < THREADS_MAX)
        round.asked += system_call(__NR_tgkill, process, number, HOLD_SIGNAL, 0) == 0;
    if (number < 0)
        return "threads cannot be seen, for tgkill(2) is refused";
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

static bool text_is(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b)
        a++, b++;
    return *a == *b;
}

/* Is it in the last part of the path? */
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
    for (size_t i = 0; i < sizeof(fork_aware) / sizeof(fork_aware[0]); i++) {
        const struct fork_aware *row = &fork_aware[i];
        if (row->thread != NULL && text_is(t->name, row->thread))
            return false;
        if (row->library != NULL && file_has(library_of_thread(t->robust_list), row->library))
            return false;
    }
    return true;
}

/* Why the threads that stay cannot be copied as they are, and which of them; NULL: they can, or no stranger
 * is among them. */
static const char *judge(long process, const struct thread **whose, bool *strangers)
{
    enum state worst = RESTS;
    for (uint32_t i = 0; i < round.noted; i++) {
        *strangers |= is_stranger(&held[i]);
        if (held[i].state != RESTS) {
            worst = held[i].state;
            *whose = &held[i];
        }
    }
    if (!*strangers)
        return NULL;
    if (PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) != NULL) {
        *whose = NULL;
        return "the imports start a thread of Python, which would be missing";
    }
    if (worst == RESTS && count_threads(process) > round.asked)
        worst = RUNS; /* one began meanwhile */
    return reasons[worst];
}

/* Have all others stay, if one of them is a stranger and all rest. Returns NULL, or why not as judge(). */
static const char *hold(const struct thread **whose, bool *strangers)
{
    const long process = system_call(__NR_getpid, 0, 0, 0, 0);
    for (int i = 0;; i++) {
        *whose = NULL;
        *strangers = false;
        const char *reason = stop(process);
        if (reason == NULL)
            reason = judge(process, whose, strangers);
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
    const struct thread *whose;
    bool strangers;
    const char *reason = hold(&whose, &strangers);
    if (reason != NULL)
        return Py_BuildValue("zzs", whose != NULL ? whose->name : NULL,
                             whose != NULL ? library_of_thread(whose->robust_list) : NULL, reason);
    if (strangers)
        release();
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* They have written themselves down as they came; they are to be started as they were once. */
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
    const struct thread *whose;
    bool strangers;
    if (hold(&whose, &strangers) != NULL)
        return -EBUSY;
    int pid;
    if (!strangers) {
        pid = fork();
        return pid < 0 ? -EAGAIN : pid;
    }
    sort_by_number();
    /* As fork(2) for the calling thread. */
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
    release(); /* in the child, nobody */
    return pid < 0 ? -EAGAIN : pid;
}

/* What glibc registers for each thread since 2.35, at a distance from its area, in lines of 32 bytes; 0:
 * nothing.
 */
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

/* A new thread begins, on the stack that it takes up, below all that is on it. */
static const struct ucontext *begin(const struct thread *t)
{
    const struct ucontext *context = t->context;
    system_call(__NR_set_robust_list, (long)t->robust_list, (long)t->robust_size, 0, 0);
    system_call(__NR_prctl, PR_SET_NAME, (long)t->name, 0, 0);
    register_sequences(t->area);
    /* Where these are not to be had, it is as well on others: only where it runs differs. */
    if (!same_processors(&t->traits, &round.traits))
        system_call(__NR_sched_setaffinity, 0, t->traits.size, (long)t->traits.processors, 0);
    __atomic_fetch_add(&round.begun, 1, __ATOMIC_RELEASE);
    system_call(__NR_futex, (long)&round.begun, FUTEX_WAKE_PRIVATE, 1, 0);
    return context;
}

/* As pthread_create(3), but for where the thread goes on. Returns its number or a negative errno. */
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
        return 0; /* to write would copy a page */
    round.saved = round.begun = 0;
    for (uint32_t i = 0; i < count; i++) {
        long number = start(&held[i]);
        if (number < 0)
            return (int)number;
    }
    /* A program finds their names, and whoever asks for them to stay writes to what they still read. */
    while ((begun = __atomic_load_n(&round.begun, __ATOMIC_ACQUIRE)) < count)
        system_call(__NR_futex, (long)&round.begun, FUTEX_WAIT_PRIVATE, begun, 0);
    return 0;
}
