/* The clock of the day in a probe. The agent is preloaded there (lookups.c), so these functions take
 * precedence over those of the C library. While the imports run, they tell a day that is years ago, and note
 * which libraries ask. A value that differs in the builder then depends on the clock (values.py). Clocks
 * without a date, which waits use, stay as they are: probe_clocks.py sets those that Python reads. */
#include "warm/agent/clocks.h"

#include <asm/unistd.h>
#include <linux/time.h>
#include <linux/time_types.h>
#include <stdbool.h>

#include "warm/agent/loaded.h"
#include "warm/agent/system.h"

#define SHIFT_NANOSECONDS 123456789
#define SECOND            1000000000

#define READERS_MAX 64

enum { UNSHIFTED, SHIFTED, SHIFTED_WITHOUT_NOTE };

static struct {
    int shifted;     /* the value of shift_clocks() */
    long long shift; /* in seconds, 0 in a second probe */
    unsigned count;
    uintptr_t readers[READERS_MAX]; /* addresses in the functions that asked */
} clocks;

static void note(uintptr_t reader)
{
    for (unsigned i = 0; i < clocks.count; i++)
        if (clocks.readers[i] == reader)
            return;
    if (clocks.count < READERS_MAX)
        clocks.readers[clocks.count++] = reader;
}

static long read_clock(int clock, struct __kernel_timespec *now, void *reader)
{
    long ret = system_call(__NR_clock_gettime, clock, (long)now, 0, 0);
    bool has_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (ret != 0 || clocks.shifted == UNSHIFTED || !has_date)
        return ret;
    if (clocks.shifted == SHIFTED)
        note((uintptr_t)reader);
    if (clocks.shift == 0)
        return 0;
    now->tv_nsec += SHIFT_NANOSECONDS;
    now->tv_sec -= clocks.shift - now->tv_nsec / SECOND;
    now->tv_nsec %= SECOND;
    return 0;
}

extern int *__errno_location(void);

EXPORTED int clock_gettime(int clock, struct __kernel_timespec *now);
EXPORTED int gettimeofday(struct __kernel_old_timeval *now, void *zone);
EXPORTED int timespec_get(struct __kernel_timespec *now, int base);
EXPORTED __kernel_time_t time(__kernel_time_t *now);

EXPORTED int clock_gettime(int clock, struct __kernel_timespec *now)
{
    long ret = read_clock(clock, now, __builtin_return_address(0));
    if (ret == 0)
        return 0;
    *__errno_location() = (int)-ret;
    return -1;
}

EXPORTED int gettimeofday(struct __kernel_old_timeval *now, void *zone)
{
    struct __kernel_timespec read = {0};
    (void)zone; /* a time zone of the kernel's own, which is always 0 */
    if (now != NULL) {
        read_clock(CLOCK_REALTIME, &read, __builtin_return_address(0));
        *now = (struct __kernel_old_timeval){read.tv_sec, read.tv_nsec / 1000};
    }
    return 0;
}

EXPORTED int timespec_get(struct __kernel_timespec *now, int base)
{
    static const int utc = 1; /* TIME_UTC, the only base of the standard */
    return base == utc && read_clock(CLOCK_REALTIME, now, __builtin_return_address(0)) == 0 ? base : 0;
}

EXPORTED __kernel_time_t time(__kernel_time_t *now)
{
    struct __kernel_timespec read = {0};
    read_clock(CLOCK_REALTIME_COARSE, &read, __builtin_return_address(0));
    if (now != NULL)
        *now = read.tv_sec;
    return read.tv_sec;
}

PyObject *shift_clocks(PyObject *self, PyObject *args)
{
    (void)self;
    int before = clocks.shifted;
    return PyArg_ParseTuple(args, "i|L", &clocks.shifted, &clocks.shift) ? Py_BuildValue("i", before) : NULL;
}

PyObject *clock_readers(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    PyObject *list = PyList_New(0);
    for (unsigned i = 0; list != NULL && i < clocks.count; i++) {
        const char *library = library_at(clocks.readers[i]);
        PyObject *name = PyUnicode_DecodeFSDefault(library != NULL ? library : "unknown");
        if (name == NULL || PyList_Append(list, name) < 0)
            return NULL;
        Py_DecRef(name);
    }
    return list;
}
