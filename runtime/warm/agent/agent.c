/* The agent: an extension module that lets the runtime make a snapshot of an interpreter, and that continues
 * in the restored process. It has two lives. In the builder it is called when the bootstrap's frames are
 * gone. It forks, and parks the child, of which the runtime takes the snapshot. In the container it wakes up
 * there, and sets arguments, environment and streams (resume.py). Then it lets the interpreter's own
 * Py_RunMain run the user's program, so everything that a program sees of its start is CPython's own work.
 * The agent decides nothing. If it cannot do something, it executes the interpreter anew, before any of the
 * user's code has run.
 *
 * Later a program may ask the agent for a fork that parks in the same way. The fork continues in a container
 * of its own.
 *
 * The agent uses no C library, because it must load beside any. It runs in a copy of itself (apart.h). At the
 * end it enters Py_RunMain again, in the place of the builder's own call, which never continues. */
#include <asm/errno.h>
#include <asm/poll.h>
#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/prctl.h>
#include <linux/signal.h>
#include <stdbool.h>

#include "warm/agent/apart.h"
#include "warm/agent/clocks.h"
#include "warm/agent/ending.h"
#include "warm/agent/loaded.h"
#include "warm/agent/memory.h"
#include "warm/agent/python_abi.h"
#include "warm/agent/services.h"
#include "warm/agent/streams.h"
#include "warm/agent/system.h"
#include "warm/agent/threads.h"
#include "warm/params.h"

/* Offsets in struct PyConfig of a CPython 3.minor, of the fields that the command line sets. run_module and
 * run_filename follow run_command. The offsets are the same in all releases of a minor version. Still,
 * locate() verifies each of them. */
static const struct layout {
    int minor;
    size_t orig_argv; /* 0: there is no such field */
    size_t argv, run_command;
} layouts[] = {
    {9, 0, 96, 336},     {10, 88, 104, 352},  {11, 104, 120, 384}, {12, 112, 128, 392},
    {13, 112, 128, 400}, {14, 112, 128, 408}, {15, 112, 128, 408},
};

static struct {
    void *interpreter; /* PyConfig */
    PyWideStringList *argv, *orig_argv;
    wchar_t **command, **module, **filename;
} config;

static struct {
    PyObject *settle; /* the bootstrap's last function, called without its frames */
    PyObject *resume; /* of resume.py, like the next four */
    PyObject *leave;
    PyObject *give_up, *is_flushed;
    PyObject *renew;
    PyObject *end_threads, *start_threads; /* of packages.py */
    PyObject *find_obstacle, *settle_in;   /* of place.py */
    PyObject *numbers_of_files;            /* of place.py */
    PyObject *obstacle;                    /* what it has found last */
    PyObject *kept;                        /* the arguments of leave(); NULL: it has none (yet) */
    const char *executable;
    int report;
    int closed[64]; /* descriptors that the child of fork_parked() closes */
    Py_ssize_t closed_count;
    bool rehearses; /* this process is the one of rehearse() */
    /* The program of rehearse(), of which note_rehearsal() knows the first part. */
    char rehearsal[512];
} agent;

static int fail(const char *text)
{
    PyErr_SetString(PyExc_RuntimeError, text);
    return -1;
}

/* Return whether the list is equal to sys.argv or sys.orig_argv. */
static int list_is(const PyWideStringList *list, PyObject *expected)
{
    if (list->length != PyList_Size(expected))
        return 0;
    for (Py_ssize_t i = 0; i < list->length; i++) {
        const wchar_t *a = list->items[i];
        const wchar_t *b = PyUnicode_AsWideCharString(PyList_GetItem(expected, i), NULL);
        while (b != NULL && *a != 0 && *a == *b)
            a++, b++;
        if (b == NULL || *a != *b)
            return 0;
    }
    return 1;
}

/* Find the configuration of this interpreter, and verify that it contains the command line of its start. */
static int locate(int minor, PyObject *argv, PyObject *orig_argv)
{
    const struct layout *layout = NULL;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i].minor == minor)
            layout = &layouts[i];
    if (layout == NULL)
        return fail("this version of Python is not supported");
    char *start = (char *)(uintptr_t)_Py_GetConfig();
    config.interpreter = start;
    config.argv = (PyWideStringList *)(start + layout->argv);
    config.orig_argv = layout->orig_argv != 0 ? (PyWideStringList *)(start + layout->orig_argv) : NULL;
    config.command = (wchar_t **)(start + layout->run_command);
    config.module = config.command + 1;
    config.filename = config.command + 2;
    if (!list_is(config.argv, argv) || (config.orig_argv != NULL && !list_is(config.orig_argv, orig_argv)) ||
        *config.command == NULL || *config.module != NULL || *config.filename != NULL)
        return fail("this build of Python has another layout of its configuration");
    return 0;
}

/* note_functions(names): call these functions, which the texts have defined. */
static PyObject *note_functions(PyObject *self, PyObject *names)
{
    (void)self;
    const struct {
        PyObject **function;
        const char *name;
    } wanted[] = {
        {&agent.resume, "resume"},
        {&agent.leave, "leave"},
        {&agent.give_up, "give_up"},
        {&agent.is_flushed, "is_flushed"},
        {&agent.renew, "renew"},
        {&agent.end_threads, "end_threads"},
        {&agent.start_threads, "start_threads"},
        {&agent.find_obstacle, "find_obstacle"},
        {&agent.settle_in, "settle_in"},
        {&agent.numbers_of_files, "numbers_of_files"},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].function = PyDict_GetItemString(names, wanted[i].name);
        Py_IncRef(*wanted[i].function);
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* leave(): the last exit handler. If all modules go, the agent must not hold references to them. */
static PyObject *leave(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    if (agent.kept == NULL) {
        Py_IncRef(&_Py_NoneStruct);
        return &_Py_NoneStruct;
    }
    PyObject *all = PyObject_CallObject(is_ending() ? agent.leave : agent.give_up, agent.kept);
    if (all == NULL)
        return NULL;
    if (PyObject_IsTrue(all) > 0) {
        Py_DecRef(agent.kept);
        agent.kept = NULL;
        return all;
    }
    PyObject *flushed = PyObject_CallObject(agent.is_flushed, NULL);
    if (flushed == NULL)
        return NULL;
    if (PyObject_IsTrue(flushed) > 0)
        shorten_ending();
    Py_DecRef(flushed);
    return all;
}

/* arm(minor, argv, orig_argv, executable, settle, report): prepare main(). The executable is bytes, as the
 * system names it; orig_argv is ignored before 3.10. */
static PyObject *arm(PyObject *self, PyObject *args)
{
    (void)self;
    int minor;
    PyObject *argv, *orig_argv;
    if (!PyArg_ParseTuple(args, "iOOyOi", &minor, &argv, &orig_argv, &agent.executable, &agent.settle,
                          &agent.report))
        return NULL;
    unload_original();
    Py_IncRef(args); /* for ever, because `agent` has pointers into it */
    if (locate(minor, argv, orig_argv) < 0)
        return NULL;
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* End the builder. `text` is a record of the report that gives the reason. */
static _Noreturn void refuse(const char *text)
{
    system_call(__NR_write, agent.report, (long)text, text_length(text) + 1, 0);
    for (;;)
        system_call(__NR_exit_group, 1, 0, 0, 0);
}

struct pause { /* struct timespec */
    long seconds, nanoseconds;
};

/* In a child of fork, write the word to the descriptor and close it. Then sleep until the system call returns
 * a positive number, or for the time `limit` (NULL: any): then the child ends. A restorer puts the address of
 * the parameters there. The child sleeps before CPython and libraries run their hooks for a child. So the
 * hooks run once in every restored process, with its process id. (threading's hook is the exception, because
 * it depends on nothing: call_ahead() in packages.py.) Threads that libraries handle at fork are gone here,
 * and the libraries' pthread_atfork handlers have run.
 */
static const struct warm_params *sleep_until_restored(int report, const char *word, Py_ssize_t size,
                                                      struct pause *limit)
{
    while (size > 0) {
        long written = system_call(__NR_write, report, (long)word, size, 0);
        if (written < 0 && written != -EINTR)
            break;
        word += written > 0 ? written : 0;
        size -= written > 0 ? written : 0;
    }
    system_call(__NR_close, report, 0, 0, 0);
    /* Only now, because the process of which this is a copy goes on meanwhile: the heap may be large. */
    const struct warm_memory *memory = memory_list();
    for (;;) {
        long result = system_call(__NR_ppoll, (long)memory, 0, (long)limit, 0);
        if (result > 0)
            return (const struct warm_params *)result;
        if (result == 0)
            system_call(__NR_exit_group, 1, 0, 0, 0);
    }
}

/* Do at once, in another child, the same work as a restored process. Its program calls what note_rehearsal()
 * has, writes "w" and waits for its end. The runtime finds the pages that this work has written to. */
static void rehearse(PyObject *settled);

/* Return whether there are interpreters besides the main one. CPython ends them in a child of fork. */
static bool has_interpreters(void)
{
    return PyInterpreterState_Next(PyInterpreterState_Head()) != NULL;
}

/* Fork and park the child. The builder waits until the child ends, and ends too. */
static const struct warm_params *park(PyObject *settled)
{
    if (has_interpreters())
        refuse(
            "xthe imports have made an interpreter (interpreters.create), which cannot come along in a fork");
    PyOS_BeforeFork();
    int pid = threads_fork();
    if (pid == 0)
        return sleep_until_restored(agent.report, "r", 2, NULL);
    if (pid > 0 && agent.report <= 9 && threads_fork() == 0)
        rehearse(settled);
    if (pid < 0)
        refuse("xa thread that the imports have started cannot come along in a fork");
    system_call(__NR_close, agent.report, 0, 0, 0);
    long child = -EINTR;
    while (pid > 0 && child == -EINTR)
        child = system_call(__NR_wait4, pid, 0, 0, 0);
    for (;;)
        system_call(__NR_exit_group, 1, 0, 0, 0);
}

/* Copy an array of strings of the parameters to memory of the C library. It is never freed, because environ
 * points to it. */
static char **copy_texts(uint64_t count, uint64_t address)
{
    char *const *from = (char *const *)address;
    size_t size = (count + 1) * sizeof(char *);
    for (uint64_t i = 0; i < count; i++)
        for (const char *p = from[i]; size++, *p != '\0'; p++)
            ;
    char **out = PyMem_RawMalloc(size);
    if (out == NULL)
        return NULL;
    char *to = (char *)(out + count + 1);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = to;
        for (const char *p = from[i]; (*to++ = *p) != '\0'; p++)
            ;
    }
    out[count] = NULL;
    return out;
}

/* Return a list of strings: decoded as in sys.argv for arguments, of bytes for variables. */
static PyObject *make_list(char *const *texts, uint64_t count, bool decoded)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = decoded ? PyUnicode_DecodeFSDefault(texts[i])
                                 : PyBytes_FromStringAndSize(texts[i], text_length(texts[i]));
        if (item == NULL)
            return NULL;
        PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

static int set_string(wchar_t **place, PyObject *text)
{
    wchar_t *wide = NULL;
    if (text != &_Py_NoneStruct && (wide = PyUnicode_AsWideCharString(text, NULL)) == NULL)
        return -1;
    return PyConfig_SetString(config.interpreter, place, wide).type != 0 ? -1 : 0;
}

static int set_list(PyWideStringList *place, PyObject *texts)
{
    Py_ssize_t length = PyList_Size(texts);
    wchar_t **items = PyMem_RawMalloc(((size_t)length + 1) * sizeof(*items));
    if (items == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < length; i++)
        if ((items[i] = PyUnicode_AsWideCharString(PyList_GetItem(texts, i), NULL)) == NULL)
            return -1;
    return PyConfig_SetWideStringList(config.interpreter, place, length, items).type != 0 ? -1 : 0;
}

/* Set the configuration to the result of resume(): (command, module, filename, argv, orig_argv). */
static int configure(PyObject *line)
{
    if (set_string(config.command, PyTuple_GetItem(line, 0)) < 0 ||
        set_string(config.module, PyTuple_GetItem(line, 1)) < 0 ||
        set_string(config.filename, PyTuple_GetItem(line, 2)) < 0 ||
        set_list(config.argv, PyTuple_GetItem(line, 3)) < 0)
        return -1;
    if (config.orig_argv != NULL && set_list(config.orig_argv, PyTuple_GetItem(line, 4)) < 0)
        return -1;
    return 0;
}

/* Give this process the state that a cold start has right before the interpreter runs the program. */
static int resume(const struct warm_params *params, char **argv, char **envp, PyObject *builder)
{
    PyObject *arguments = make_list(argv, params->argc, true);
    PyObject *variables = make_list(envp, params->envc, false);
    PyObject *changed = other_streams();
    PyObject *entropy = PyBytes_FromStringAndSize((const char *)params->entropy, sizeof(params->entropy));
    if (arguments == NULL || variables == NULL || changed == NULL || entropy == NULL)
        return -1;
    PyObject *all =
        Py_BuildValue("(ONNNkkN)", builder, arguments, variables, changed, (unsigned long)params->program,
                      (unsigned long)params->program_index, entropy);
    PyObject *line = all != NULL ? PyObject_CallObject(agent.resume, all) : NULL;
    if (line == NULL || configure(line) < 0)
        return -1;
    Py_DecRef(line);
    Py_DecRef(all);
    Py_DecRef(agent.resume);
    return 0;
}

#define CANNOT_CONTINUE "the imports cannot be continued: "

static void say(const char *text)
{
    system_call(__NR_write, 2, (long)text, text_length(text), 0);
}

/* Return the text of the exception that is set. It lives as long as the process. */
static const char *text_of_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *string = value != NULL ? PyObject_Str(value) : NULL;
    const char *text = string != NULL ? PyUnicode_AsUTF8AndSize(string, NULL) : NULL;
    return text != NULL ? text : "out of memory";
}

/* Append as much of the text as fits, and return the new end. */
static char *append(char *to, const char *end, const char *text)
{
    while (to < end && *text != '\0')
        *to++ = *text++;
    *to = '\0';
    return to;
}

/* Give the reason for a cold start to a program that has this variable. The runtime has left already. */
static void tell_reason(const char *reason, char **envp)
{
    static char variable[1024];
    const char name[] = WARM_REASON_VARIABLE "=", *end = variable + sizeof(variable) - 1;
    for (; *envp != NULL; envp++) {
        size_t i = 0;
        while (name[i] != '\0' && (*envp)[i] == name[i])
            i++;
        if (name[i] != '\0')
            continue;
        append(append(append(variable, end, name), end, CANNOT_CONTINUE), end, reason);
        *envp = variable;
    }
}

/* Execute the interpreter anew. This is always correct, because no code of the user has run yet. If a warm
 * start is required, end the process with the reason, which stands where the runtime's own error would. */
static _Noreturn void start_cold(const struct warm_params *params, const char *reason, char **argv,
                                 char **envp)
{
    if (agent.rehearses)
        system_call(__NR_exit_group, 1, 0, 0, 0);
    if (params->required != 0) {
        say("pysbx-runtime: run.pysbx.warm=require: " CANNOT_CONTINUE);
        say(reason);
        say("\n");
        system_call(__NR_exit_group, 1, 0, 0, 0);
    }
    tell_reason(reason, envp);
    /* CPython ignores these signals, and an ignored signal stays ignored after execve. */
    static const uint64_t handler_default[4];
    system_call(__NR_rt_sigaction, SIGPIPE, (long)handler_default, 0, 8);
    system_call(__NR_rt_sigaction, SIGXFSZ, (long)handler_default, 0, 8);
    system_call(__NR_execve, (long)agent.executable, (long)argv, (long)envp, 0);
    say("pysbx: cannot execute the interpreter\n");
    for (;;)
        system_call(__NR_exit_group, 126, 0, 0, 0);
}

/* Run the program, from its parameters to its end. `settled`: the result of the bootstrap's settle(). */
static _Noreturn void wake_up(const struct warm_params *params, PyObject *settled)
{
    char **argv = copy_texts(params->argc, params->argv);
    char **envp = copy_texts(params->envc, params->envp);
    if (argv == NULL || envp == NULL)
        start_cold(params, "out of memory", (char **)params->argv, (char **)params->envp);
    environ = envp;
    PyOS_AfterFork_Child();
    if (resume(params, argv, envp, PyTuple_GetItem(settled, 0)) < 0)
        start_cold(params, text_of_exception(), argv, envp);
    int ret = threads_start();
    if (ret < 0)
        start_cold(params,
                   ret == -EAGAIN ? "Resource temporarily unavailable: their threads cannot be started"
                                  : "their threads cannot be started",
                   argv, envp);
    agent.kept = PyTuple_GetItem(settled, 1);
    Py_IncRef(agent.kept);
    Py_DecRef(settled);
    system_call(__NR_munmap, (long)params->area, (long)params->area_size, 0, 0);
    if (_PyInterpreterState_SetNotRunningMain != NULL)
        _PyInterpreterState_SetNotRunningMain(PyInterpreterState_Get());
    Py_LeaveRecursiveCall(); /* the level of this call of excepthook */
    run_main();
}

/* note_rehearsal(text): rehearse() begins with these lines, each with its end. */
static PyObject *note_rehearsal(PyObject *self, PyObject *args)
{
    (void)self;
    enum { ROOM = 128 }; /* for the rest */
    const char *text;
    if (!PyArg_ParseTuple(args, "s", &text))
        return NULL;
    size_t length = (size_t)text_length(agent.rehearsal);
    if (length + (size_t)text_length(text) < sizeof(agent.rehearsal) - ROOM)
        append(agent.rehearsal + length, agent.rehearsal + sizeof(agent.rehearsal) - 1, text);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

static void rehearse(PyObject *settled)
{
    char last[] = "import posix, _signal; posix.write(0, b'w\\0'); posix.close(0); _signal.pause()";
    char *argv[] = {(char *)(uintptr_t)agent.executable, "-c", agent.rehearsal, NULL};
    struct warm_params params = {.argc = 3,
                                 .argv = (uint64_t)argv,
                                 .envp = (uint64_t)environ,
                                 .program = WARM_PROGRAM_COMMAND,
                                 .program_index = 2};
    for (char *p = last; *p != '\0'; p++)
        if (*p == '0' && p[-1] == '(')
            *p = (char)('0' + agent.report);
    append(agent.rehearsal + text_length(agent.rehearsal), agent.rehearsal + sizeof(agent.rehearsal) - 1,
           last);
    while (environ[params.envc] != NULL)
        params.envc++;
    agent.rehearses = true;
    system_call(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    wake_up(&params, settled);
}

/* sys.excepthook of the builder. An exception that leaves the bootstrap gets here when no frame is left, so
 * the snapshot and the user's program have no frame of the bootstrap beneath them. */
static PyObject *main_without_frames(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    PyObject *settled = PyObject_CallObject(agent.settle, NULL); /* arguments of resume() and leave() */
    if (settled == NULL)
        refuse("xthe interpreter cannot be settled");
    find_bottom();
    wake_up(park(settled), settled);
}

/* Call a function and drop its result. Negative: an exception is set. */
static int call(PyObject *function)
{
    PyObject *result = PyObject_CallObject(function, NULL);
    if (result == NULL)
        return -1;
    Py_DecRef(result);
    return 0;
}

enum { NO_FORK = -1, CANNOT_GO_ON = -2 };

/* Fork, and park the child, which the runtime saves. The child writes the word to the descriptor and sleeps,
 * for the time `limit` at most (NULL: any). Return its pid; 0 in the child once it is restored, which has
 * streams of its own and no other descriptor; negative: an exception is set. That is CANNOT_GO_ON in this
 * child, else NO_FORK. */
static int fork_parked(int report, const char *word, Py_ssize_t size, struct pause *limit)
{
    if (has_interpreters())
        return fail("an interpreter (interpreters.create) cannot come along in a fork");
    if (call(agent.end_threads) < 0)
        return NO_FORK;
    PyOS_BeforeFork();
    int pid = threads_fork();
    if (pid < 0)
        pid = fork(); /* without threads, as os.fork() */
    if (pid != 0)
        PyOS_AfterFork_Parent();
    if (pid < 0)
        return PyErr_SetFromErrno(PyExc_OSError), NO_FORK; /* numexpr has one thread until the next fork */
    if (pid > 0)
        return call(agent.start_threads) < 0 ? NO_FORK : pid;
    for (Py_ssize_t i = 0; i < agent.closed_count; i++)
        system_call(__NR_close, agent.closed[i], 0, 0, 0);
    const struct warm_params *params = sleep_until_restored(report, word, size, limit);
    PyOS_AfterFork_Child();
    PyObject *entropy = Py_BuildValue(
        "(N)", PyBytes_FromStringAndSize((const char *)params->entropy, sizeof(params->entropy)));
    system_call(__NR_munmap, (long)params->area, (long)params->area_size, 0, 0);
    PyObject *renewed = entropy != NULL ? PyObject_CallObject(agent.renew, entropy) : NULL;
    if (renewed == NULL || call(agent.start_threads) < 0)
        return CANNOT_GO_ON;
    if (threads_start() < 0)
        return fail("threads of libraries cannot be started again"), CANNOT_GO_ON;
    Py_DecRef(entropy);
    Py_DecRef(renewed);
    return 0;
}

/* fork(report, word): as os.fork(), but the child writes the word, which is bytes, to the descriptor. Then it
 * sleeps until the runtime has saved it. Only a restored process returns 0. */
static PyObject *fork_to_be_saved(PyObject *self, PyObject *args)
{
    (void)self;
    int report;
    char *word;
    Py_ssize_t size;
    PyObject *bytes;
    if (!PyArg_ParseTuple(args, "iO", &report, &bytes) || PyBytes_AsStringAndSize(bytes, &word, &size) < 0)
        return NULL;
    int pid = fork_parked(report, word, size, NULL);
    return pid < 0 ? NULL : Py_BuildValue("i", pid);
}

/* Seconds after which a fork ends that is not saved, because the runtime was killed. */
#define FORK_LIMIT 30

/* Note the descriptors that the child is to close. -1: an exception is set. */
static int note_closed(void)
{
    PyObject *numbers = PyObject_CallObject(agent.numbers_of_files, NULL);
    if (numbers == NULL)
        return -1;
    agent.closed_count = PyList_Size(numbers);
    if (agent.closed_count > (Py_ssize_t)(sizeof(agent.closed) / sizeof(agent.closed[0])))
        agent.closed_count = 0; /* the runtime names the first of them */
    for (Py_ssize_t i = 0; i < agent.closed_count; i++)
        agent.closed[i] = (int)PyLong_AsLong(PyList_GetItem(numbers, i));
    Py_DecRef(numbers);
    return 0;
}

/* End a restored process that lacks something, which the exception names. */
static _Noreturn void end_restored(void)
{
    say("pysbx-runtime: the program cannot go on in this container: ");
    say(text_of_exception());
    say("\n");
    for (;;)
        system_call(__NR_exit_group, 1, 0, 0, 0);
}

/* The runtime asks for a fork to save. Return 1 in a restored process. Return 0 otherwise, when the fork has
 * ended, or with agent.obstacle set. Negative: an exception is set, of a signal's handler. */
static int serve_checkpoint(void)
{
    struct pause limit = {.seconds = FORK_LIMIT};
    if (agent.obstacle != NULL)
        Py_DecRef(agent.obstacle);
    agent.obstacle = PyObject_CallObject(agent.find_obstacle, NULL);
    if (agent.obstacle == NULL)
        return -1;
    if (agent.obstacle != &_Py_NoneStruct)
        return 0;
    if (note_closed() < 0)
        return -1;
    int pid = fork_parked(-1, NULL, 0, &limit);
    agent.closed_count = 0;
    if (pid == CANNOT_GO_ON || (pid == 0 && call(agent.settle_in) < 0))
        end_restored();
    if (pid < 0)
        agent.obstacle = PyUnicode_DecodeFSDefault(text_of_exception());
    long ended = pid > 0 ? -EINTR : 0;
    while (ended == -EINTR)
        ended = system_call(__NR_wait4, pid, 0, 0, 0);
    return pid == 0;
}

/* Why the process was not saved when the runtime asked, or NULL. */
static const char *text_of_obstacle(void)
{
    return agent.obstacle == NULL || agent.obstacle == &_Py_NoneStruct
               ? NULL
               : PyUnicode_AsUTF8AndSize(agent.obstacle, NULL);
}

/* park(descriptor, milliseconds): wait until the descriptor can be read, or for this time; a negative number
 * stands for none, and for any time. A container whose program waits here can be saved
 * (`checkpoint`). Returns whether it has been restored from that. */
static PyObject *park_until(PyObject *self, PyObject *args)
{
    (void)self;
    int descriptor, milliseconds;
    if (!PyArg_ParseTuple(args, "ii", &descriptor, &milliseconds))
        return NULL;
    struct {
        int fd;
        short events, revents;
    } wanted = {descriptor, POLLIN, 0};
    struct pause left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    int restored = 0;
    for (long result = -EINTR; result == -EINTR && restored == 0;) {
        const char *obstacle = text_of_obstacle();
        PyThreadState *state = PyEval_SaveThread();
        result =
            system_call_long(__NR_ppoll, (long)&wanted, descriptor >= 0, milliseconds < 0 ? 0 : (long)&left,
                             0, (long)obstacle, (long)WARM_WAIT_MAGIC);
        PyEval_RestoreThread(state);
        if (result == -EINTR && PyErr_CheckSignals() < 0)
            return NULL;
        if (result == WARM_WAIT_FORK) {
            restored = serve_checkpoint();
            result = -EINTR;
        }
        if (restored < 0)
            return NULL;
        if (result < 0 && result != -EINTR)
            return fail("ppoll(2) fails"), NULL;
    }
    return Py_BuildValue("O", restored ? &_Py_TrueStruct : &_Py_FalseStruct);
}

static PyMethodDef methods[] = {
    {"arm", arm, METH_VARARGS, NULL},
    {"clock_readers", clock_readers, METH_VARARGS, NULL},
    {"environment", environment, METH_VARARGS, NULL},
    {"fill_words", fill_words, METH_VARARGS, NULL},
    {"first_environment", first_environment, METH_VARARGS, NULL},
    {"fork", fork_to_be_saved, METH_VARARGS, NULL},
    {"keep", keep, METH_O, NULL},
    {"leave", leave, METH_VARARGS, NULL},
    {"libraries", libraries, METH_VARARGS, NULL},
    {"main", main_without_frames, METH_VARARGS, NULL},
    {"memory_file", memory_file, METH_VARARGS, NULL},
    {"note_functions", note_functions, METH_O, NULL},
    {"note_memory", note_memory, METH_VARARGS, NULL},
    {"note_rehearsal", note_rehearsal, METH_VARARGS, NULL},
    {"note_streams", note_streams, METH_VARARGS, NULL},
    {"open_for", open_for, METH_VARARGS, NULL},
    {"park", park_until, METH_VARARGS, NULL},
    {"rest_threads", rest_threads, METH_VARARGS, NULL},
    {"shift_clocks", shift_clocks, METH_VARARGS, NULL},
    {"swap", swap, METH_VARARGS, NULL},
    {"thaw", thaw, METH_O, NULL},
    {"trampolines", trampolines, METH_O, NULL},
    {"words_of", words_of, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {.refcount = 1, .name = "agent", .methods = methods};

static PyObject *initialize(void)
{
    return PyModuleDef_Init(&definition);
}

/* In a builder, all that follows happens in a copy. A probe has the agent preloaded for its getenv(). */
PyObject *PyInit_agent(void);
EXPORTED PyObject *PyInit_agent(void)
{
    const uintptr_t distance = is_preloaded() ? 0 : make_copy();
    PyObject *(*start)(void) = (PyObject * (*)(void))((uintptr_t)&initialize + distance);
    return start();
}
