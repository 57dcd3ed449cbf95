/* Report the variables that the libraries of a probe ask the C library for. In a probe the agent is preloaded
 * (ld.so(8), LD_PRELOAD), so its getenv(3) takes precedence over that of the C library. It tells the runtime
 * each name by a look-up of a path (runtime/warm/observe/observe.h). In a builder the agent is loaded as a
 * module, and nothing finds these functions. */
#include <asm/unistd.h>
#include <stdbool.h>

#include "warm/agent/apart.h"
#include "warm/agent/system.h"
#include "warm/params.h"

#define NAME_MAX_TOLD 255
#define TOLD          256 /* slots for hashes of names that were told already */

extern char **environ;

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
