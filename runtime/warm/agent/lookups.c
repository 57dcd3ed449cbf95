/* Report the variables and the random bytes that the libraries of a probe ask the C library for. In a probe
 * the agent is preloaded (ld.so(8), LD_PRELOAD), so its functions take precedence over those of the C
 * library. They tell the runtime each name or number by a look-up of a path (runtime/warm/observe/observe.h).
 * In a builder the agent is loaded as a module, and nothing finds these functions. */
#include <asm/unistd.h>
#include <stdbool.h>

#include "warm/agent/apart.h"
#include "warm/agent/system.h"
#include "warm/params.h"

#define NAME_MAX_TOLD 255
#define TOLD          256 /* slots for hashes of names that were told already */

static bool preloaded;

bool is_preloaded(void)
{
    return preloaded;
}

static bool starts_with(const char *text, const char *prefix)
{
    while (*prefix != '\0')
        if (*text++ != *prefix++)
            return false;
    return true;
}

/* Remove the agent from the variable that has preloaded it, and the variable if it is empty then. The imports
 * and the programs that they start must not see it. */
__attribute__((constructor)) static void hide_preload(int argc, char **argv, char **envp)
{
    static const char variable[] = "LD_PRELOAD=";
    (void)argc;
    (void)argv;
    for (; envp != NULL && *envp != NULL; envp++) {
        char *value = *envp + sizeof(variable) - 1;
        if (!starts_with(*envp, variable) || !starts_with(value, WARM_AGENT_PATH))
            continue;
        const char *rest = value + sizeof(WARM_AGENT_PATH) - 1;
        preloaded = true;
        if (*rest == ':') {
            for (rest++; (*value = *rest) != '\0'; value++)
                rest++;
            return;
        }
        for (char **next = envp; (*next = next[1]) != NULL; next++)
            ;
        return;
    }
}

static void tell(const char *name)
{
    static unsigned long told[TOLD];
    char path[sizeof(WARM_VARIABLES) + NAME_MAX_TOLD] = WARM_VARIABLES;
    ptrdiff_t size = text_length(name);
    unsigned long hash = 5381;
    if (size == 0 || size > NAME_MAX_TOLD)
        return;
    for (ptrdiff_t i = 0; i <= size; i++) {
        path[sizeof(WARM_VARIABLES) - 1 + (size_t)i] = name[i];
        hash = hash * 33 + (unsigned char)name[i];
    }
    if (told[hash % TOLD] == hash)
        return;
    told[hash % TOLD] = hash;
    system_call(__NR_access, (long)path, 0, 0, 0);
}

EXPORTED char *getenv(const char *name);
EXPORTED char *secure_getenv(const char *name);
EXPORTED char *__secure_getenv(const char *name);

EXPORTED char *getenv(const char *name)
{
    ptrdiff_t size = text_length(name);
    if (preloaded)
        tell(name);
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        if (starts_with(*variable, name) && (*variable)[size] == '=')
            return *variable + size + 1;
    return NULL;
}

/* These are the same as getenv(), because a probe is not a set-user-ID program. */
EXPORTED char *secure_getenv(const char *name)
{
    return getenv(name);
}

EXPORTED char *__secure_getenv(const char *name)
{
    return getenv(name);
}

extern int *__errno_location(void) __attribute__((weak)); /* of glibc and musl */

static long result(long ret)
{
    if (ret < 0 && ret >= -4095 && __errno_location != 0)
        *__errno_location() = (int)-ret;
    return ret < 0 && ret >= -4095 ? -1 : ret;
}

/* Random bytes: getrandom(2), getentropy(3), arc4random(3). `caller` is an address in the code that asks. */

static long draw(void *buffer, size_t size, unsigned flags, const void *caller)
{
    return result(
        system_call(__NR_getrandom, (long)buffer, (long)size, WARM_MARK | (long)flags, (long)caller));
}

static void draw_all(void *buffer, size_t size, const void *caller)
{
    for (size_t drawn = 0; drawn < size;) {
        long ret = draw((char *)buffer + drawn, size - drawn, 0, caller);
        drawn += ret > 0 ? (size_t)ret : 0;
    }
}

EXPORTED long getrandom(void *buffer, size_t size, unsigned flags);
EXPORTED int getentropy(void *buffer, size_t size);
EXPORTED unsigned arc4random(void);
EXPORTED void arc4random_buf(void *buffer, size_t size);
EXPORTED unsigned arc4random_uniform(unsigned bound);

EXPORTED long getrandom(void *buffer, size_t size, unsigned flags)
{
    return draw(buffer, size, flags, __builtin_return_address(0));
}

EXPORTED int getentropy(void *buffer, size_t size)
{
    enum { MAXIMUM = 256, EIO = 5 };
    if (size > MAXIMUM)
        return (int)result(-EIO);
    draw_all(buffer, size, __builtin_return_address(0));
    return 0;
}

EXPORTED unsigned arc4random(void)
{
    unsigned number;
    draw_all(&number, sizeof(number), __builtin_return_address(0));
    return number;
}

EXPORTED void arc4random_buf(void *buffer, size_t size)
{
    draw_all(buffer, size, __builtin_return_address(0));
}

EXPORTED unsigned arc4random_uniform(unsigned bound)
{
    unsigned number, rest = bound > 1 ? -bound % bound : 0;
    do
        draw_all(&number, sizeof(number), __builtin_return_address(0));
    while (number < rest);
    return bound > 1 ? number % bound : 0;
}

/* Make a system call, syscall(2). */
EXPORTED long syscall(long number, long a, long b, long c, long d, long e, long f);

EXPORTED long syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == __NR_getrandom)
        return draw((void *)a, (size_t)b, (unsigned)c, __builtin_return_address(0));
    return result(system_call_long(number, a, b, c, d, e, f));
}

/* The status of a descriptor, which may be a standard stream: fstat(2), and its names in glibc before 2.33.
 */

static int status(int descriptor, void *out, const void *caller)
{
    return (int)result(
        system_call(__NR_fstat, WARM_MARK | (long)(unsigned)descriptor, (long)out, 0, (long)caller));
}

EXPORTED int fstat(int descriptor, void *out);
EXPORTED int fstat64(int descriptor, void *out);
EXPORTED int __fxstat(int version, int descriptor, void *out);
EXPORTED int __fxstat64(int version, int descriptor, void *out);

EXPORTED int fstat(int descriptor, void *out)
{
    return status(descriptor, out, __builtin_return_address(0));
}

EXPORTED int fstat64(int descriptor, void *out)
{
    return status(descriptor, out, __builtin_return_address(0));
}

EXPORTED int __fxstat(int version, int descriptor, void *out)
{
    (void)version;
    return status(descriptor, out, __builtin_return_address(0));
}

EXPORTED int __fxstat64(int version, int descriptor, void *out)
{
    (void)version;
    return status(descriptor, out, __builtin_return_address(0));
}
