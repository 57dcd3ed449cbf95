/* Each field is one NUL-terminated "name=value". No name contains '=' and no value contains NUL, so no two
 * keys have the same text. The CPU is compared with the snapshot file, because a snapshot for another CPU is
 * refused in any case. The boot ID covers kernel, clock and vdso. */
#include "warm/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "warm/agent/agent.h"
#include "warm/command_line.h"
#include "warm/content.h"
#include "warm/file_identity.h"
#include "warm/manifest/format.h"
#include "warm/question.h"
#include "warm/root_view.h"
#include "warm/snapshot/snapshot.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

_Static_assert(KEY_NAME_SIZE == HASH_NAME_SIZE, "a key's name is a hash");

/* Variables that the loader, the C library, the interpreter or common extension modules read when they start,
 * without asking os.environ. A final '*' matches the rest of the name. */
static const char *const variables[] = {
    "ARGP_HELP_FMT", "BLIS_*",    "DATEMSK",        "GCONV_PATH",  "GETCONF_DIR",     "GLIBC_TUNABLES",
    "GOMP_*",        "GOTO_*",    "HOME",           "HOSTALIASES", "KMP_*",           "LANG",
    "LANGUAGE",      "LC_*",      "LD_*",           "LOCALDOMAIN", "LOCPATH",         "MALLOC_*",
    "MKL_*",         "MSGVERB",   "NLSPATH",        "NPY_*",       "NUMEXPR_*",       "OMP_*",
    "OPENBLAS_*",    "OPENSSL_*", "OUTPUT_CHARSET", "PATH",        "POSIXLY_CORRECT", "PWD",
    "PYTHON*",       "RESOLV_*",  "RES_OPTIONS",    "RUST_*",      "SEV_LEVEL",       "SSL_*",
    "TMPDIR",        "TZ",        "TZDIR",          NULL,
};

static bool matches(const char *variable, const char *pattern)
{
    size_t length = strlen(pattern);
    if (pattern[length - 1] == '*')
        return strncmp(variable, pattern, length - 1) == 0;
    return strncmp(variable, pattern, length) == 0 && variable[length] == '=';
}

bool key_has_variable(const char *variable)
{
    for (size_t i = 0; variables[i] != NULL; i++)
        if (matches(variable, variables[i]))
            return true;
    return false;
}

static void close_stream(FILE **stream)
{
    if (*stream != NULL)
        fclose(*stream);
}

__attribute__((format(printf, 3, 4))) static void put(FILE *out, const char *name, const char *fmt, ...)
{
    va_list ap;
    fprintf(out, "%s=", name);
    va_start(ap, fmt);
    vfprintf(out, fmt, ap);
    va_end(ap);
    fputc('\0', out);
}

static void put_identity(FILE *out, const char *name, const struct file_identity *id)
{
    put(out, name, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %o", id->inode, id->size, id->modified,
        id->changed, id->mode);
}

static void put_list(FILE *out, const char *name, const char *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(out, name, "%s", items[i]);
}

/* Compare pointers into the environment. */
static int by_name(const void *a, const void *b)
{
    char *const *x = *(char *const *const *)a, *const *y = *(char *const *const *)b;
    size_t length = strcspn(*x, "="), other = strcspn(*y, "=");
    int names = strncmp(*x, *y, length < other ? length : other);
    if (names != 0)
        return names;
    if (length != other)
        return length < other ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Write the variables sorted, because their order affects nothing that is restored. Variables of one name
 * keep their order: getenv(3) finds the first. */
static void put_environment(struct arena *a, FILE *out, char *const *envp)
{
    size_t all = 0, count = 0;
    while (envp[all] != NULL)
        all++;
    char *const **chosen = ARENA_ARRAY(a, all + 1, char *const *);
    for (size_t i = 0; i < all; i++)
        if (key_has_variable(envp[i]))
            chosen[count++] = &envp[i];
    qsort(chosen, count, sizeof(*chosen), by_name);
    for (size_t i = 0; i < count; i++)
        put(out, "environment", "%s", *chosen[i]);
}

static void put_place(struct arena *a, FILE *out, const struct key_facts *facts, const char *path)
{
    struct file_identity id;
    dev_t device;
    cleanup_fd int fd = root_view_open(facts->view, path_clean(a, path_join(a, facts->cwd, path)), O_PATH);
    if (fd < 0 || identity_and_device(fd, &id, &device) < 0)
        return;
    /* The numbers of an overlay's directories may differ in each mount (warm/numbering.h), but not if files
     * have the device of directories. That is so in the usual container, whose modules are on the
     * interpreter's file system. The times tell volumes apart without the number. */
    if (device != facts->device && S_ISDIR(id.mode) && content_is_overlay(fd))
        id.inode = 0;
    put_identity(out, "modules", &id);
}

/* Write the directories of modules: those of PYTHONPATH, those of the list to preload, and those into which
 * modules are installed. These are next to the interpreter, or in the layouts of Debian and Fedora. Two
 * container images that share the layer of the interpreter differ here, and so do two volumes. They get
 * separate snapshots. */
static void put_places(struct arena *a, FILE *out, const struct key_facts *facts)
{
    const char *slash = strrchr(facts->program, '/');
    const char *bin = arena_strndup(a, facts->program, slash != NULL ? (size_t)(slash - facts->program) : 0);
    put_place(a, out, facts, arena_printf(a, "%s/../lib/python3.%u/site-packages", bin, facts->minor));
    put_place(a, out, facts, arena_printf(a, "%s/../lib64/python3.%u/site-packages", bin, facts->minor));
    put_place(a, out, facts, arena_printf(a, "%s/../lib/python3/dist-packages", bin));
    put_place(a, out, facts, arena_printf(a, "%s/../local/lib/python3.%u/dist-packages", bin, facts->minor));
    for (size_t i = 0; facts->envp[i] != NULL; i++)
        for (const char *p = str_after(facts->envp[i], "PYTHONPATH="); p != NULL && *p != '\0';) {
            size_t length = strcspn(p, ":");
            put_place(a, out, facts, arena_strndup(a, p, length));
            p += length + (p[length] == ':');
        }
    for (size_t i = 0; i < facts->preload->count; i++)
        if (facts->preload->items[i][0] == '/')
            put_place(a, out, facts, facts->preload->items[i]);
}

static int put_machine(FILE *out, struct error *err)
{
    struct utsname system;
    char boot[64];
    if (uname(&system) < 0)
        return error_set(err, -errno, "uname");
    /* Not by base/proc.h: in a container, /proc/sys or this file itself is a separate mount. */
    ssize_t n = io_read_small_at(AT_FDCWD, BOOT_ID, boot, sizeof(boot));
    if (n < 0)
        return error_set(err, (int)n, "read '%s'", BOOT_ID);
    put(out, "machine", "%s", system.machine);
    put(out, "kernel", "%s %s", system.release, system.version);
    put(out, "boot", "%s", boot);
    /* Libraries start as many threads. A set makes its own snapshot, which "affinity" compares where it runs.
     */
    char cpus[QUESTION_ANSWER_MAX];
    question_answer(QUESTION_AFFINITY, cpus);
    put(out, "processors", "%s", cpus);
    return 0;
}

static int put_all(struct arena *a, FILE *out, const struct key_facts *facts, struct error *err)
{
    put(out, "runtime", "%s", facts->version);
    put(out, "agent", "%s", agent_identity);
    /* Otherwise two versions of the runtime would replace each other's snapshots. */
    put(out, "formats", "%u %" PRIx64, SNAPSHOT_VERSION, MANIFEST_MAGIC);
    int ret = put_machine(out, err);
    if (ret < 0)
        return ret;
    put(out, "called", "%s", facts->called);
    put(out, "program", "%s", facts->program);
    put_identity(out, "interpreter", facts->interpreter);
    put(out, "python", "3.%u", facts->minor);
    put_list(out, "option", facts->command_line->options, facts->command_line->option_count);
    put_list(out, "preload", facts->preload->items, facts->preload->count);
    put_places(a, out, facts);
    put(out, "cwd", "%s", facts->cwd);
    put(out, "user", "%u:%u", facts->uid, facts->gid);
    put(out, "credentials", "%s", facts->credentials);
    put(out, "limits", "%s", facts->limits);
    if (facts->cpus != NULL)
        put(out, "cpus", "%s", facts->cpus);
    if (facts->seccomp.data != NULL) {
        char name[HASH_NAME_SIZE];
        hash_name(hash_bytes(facts->seccomp.data, facts->seccomp.size), name);
        put(out, "seccomp", "%s", name);
    }
    if (facts->confinement != NULL && facts->confinement[0] != '\0')
        put(out, "confinement", "%s", facts->confinement);
    put_environment(a, out, facts->envp);
    return 0;
}

void key_name(const char *text, size_t size, char name[static KEY_NAME_SIZE])
{
    hash_name(hash_bytes(text, size), name);
}

int key_make(struct arena *a, const struct key_facts *facts, struct warm_key *out, struct error *err)
{
    cleanup_free char *text = NULL;
    size_t size = 0;
    __attribute__((cleanup(close_stream))) FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return error_set(err, -errno, "key of the snapshot");
    int ret = put_all(a, stream, facts, err);
    if (ret < 0)
        return ret;
    if (fflush(stream) != 0)
        return error_set(err, -errno, "key of the snapshot");
    char *copy = arena_alloc(a, size);
    memcpy(copy, text, size);
    *out = (struct warm_key){.text = copy, .size = size};
    key_name(copy, size, out->name);
    return 0;
}
