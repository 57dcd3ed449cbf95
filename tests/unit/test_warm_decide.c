/* Warm or cold: the decision and its reasons, the check of a container's files, warm.json. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "unit.h"
#include "warm/config.h"
#include "warm/decide.h"
#include "warm/file_identity.h"
#include "warm/restore/restore.h"
#include "warm/root_view.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char root_path[] = "/tmp/pysbx-unit.XXXXXX";
static int root;
static struct arena arena;

static void make_directories(const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (mkdirat(root, *paths, 0755) < 0)
            bail_out("mkdir '%s'", *paths);
}

static void put_program(const char *path, const void *data, size_t size)
{
    if (io_create_file_at(root, path, data, size, 0755) < 0)
        bail_out("write '%s'", path);
}

static void link_to(const char *target, const char *path)
{
    if (symlinkat(target, root, path) < 0)
        bail_out("symlink '%s'", path);
}

/* Create a root whose interpreters are copies of this test: dynamic programs for this machine and glibc. */
static void make_root(void)
{
    static const char *const directories[] = {"usr",
                                              "usr/bin",
                                              "usr/lib",
                                              "usr/lib/python3.11",
                                              "opt",
                                              "opt/venv",
                                              "opt/venv/bin",
                                              "usr/lib/python3.11/site-packages",
                                              "data",
                                              "usr/libexec",
                                              NULL};
    char *self;
    size_t size;
    if (mkdtemp(root_path) == NULL || (root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        bail_out("cannot make a root");
    if (io_read_file_at(&arena, AT_FDCWD, "/proc/self/exe", (size_t)1 << 28, &self, &size) < 0)
        bail_out("cannot read the test itself");
    make_directories(directories);
    put_program("usr/bin/python3.11", self, size);
    put_program("usr/bin/python3.8", self, size);
    put_program("usr/bin/python3.99", self, size);
    put_program("opt/python", self, size);
    put_program("opt/python3.12", "#!/bin/sh\n", 10);
    link_to("python3.11", "usr/bin/python3");
    link_to("python3", "usr/bin/python");
    link_to("/usr/bin/python3", "opt/venv/bin/python");
    link_to("../../../../../../../../etc", "opt/out");
    char *loader = memmem(self, size, "/ld-linux-", 10);
    if (loader == NULL)
        bail_out("the test has no loader");
    static const char other[] = {'o', 't', 'h', 'e', 'r'};
    memcpy(loader + strlen("/ld-"), other, sizeof(other));
    put_program("opt/python3.13", self, size);
    if (io_create_file_at(root, "data/python3.11", self, size, 0644) < 0)
        bail_out("write a file that is no program");
}

static struct str_pair pairs[2];
static struct str_map annotations = {pairs, 0};
static struct root_view view;

/* A container that starts warm. Tests change one property of it. */
static struct warm_context context_of(const char *const *argv)
{
    static const char *const envp[] = {"PATH=/usr/bin", "LANG=C.UTF-8", "OTHER=1", NULL};
    annotations.count = 0;
    view = (struct root_view){.root = root};
    return (struct warm_context){.facts = {.version = "test",
                                           .envp = (char *const *)(uintptr_t)envp,
                                           .cwd = "/",
                                           .limits = "stack 8388608",
                                           .credentials = "",
                                           .view = &view},
                                 .annotations = &annotations,
                                 .argv = (char *const *)(uintptr_t)argv,
                                 .search_path = "/nowhere:/usr/bin",
                                 .config = "/nonexistent/warm.json"};
}

static void annotate(const char *key, const char *value)
{
    pairs[annotations.count++] = (struct str_pair){key, value};
}

static int decide(const struct warm_context *context, struct warm_plan *plan, struct error *err)
{
    *err = (struct error){0};
    return warm_decide(&arena, context, plan, err);
}

static void test_programs(void)
{
    static const struct {
        const char *program, *cwd, *reason; /* reason: a part of it; NULL: warm */
    } rows[] = {
        {"python3", "/", NULL},
        {"python", "/", NULL},
        {"python3.11", "/", NULL},
        {"/usr/bin/python3", "/", NULL},
        {"bin/python3", "/usr", NULL},
        {"./python", "/opt/venv/bin", NULL},
        {"/opt/venv/bin/python", "/", NULL},
        {"sh", "/", "the program does not have the name of a Python interpreter"},
        {"python2", "/", "does not have the name of"},
        {"python2.7", "/", "does not have the name of"},
        {"python3.11-config", "/", "does not have the name of"},
        {"pypy3", "/", "does not have the name of"},
        {"/usr/bin/", "/", "does not have the name of"},
        {"python3.9", "/", "program 'python3.9' is not visible"},
        {"/nowhere/python3", "/", "program '/nowhere/python3' is not visible"},
        {"/data/python3.11", "/", "program '/data/python3.11' is not visible"},
        {"/opt/out/python3", "/", "is not visible"},
        {"python3.8", "/", "Python 3.8 is not supported: 3.9 to 3.15 are"},
        {"python3.99", "/", "Python 3.99 is not supported"},
        {"/opt/python", "/", "'/opt/python' is not CPython 3.9 or later"},
        {"/opt/python3.12", "/", "'/opt/python3.12' is not a dynamic program for this machine"},
        {"/opt/python3.13", "/", "asks for the loader 'ld-other-"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *const argv[] = {rows[i].program, "-c", "pass", NULL};
        struct warm_context context = context_of(argv);
        struct warm_plan plan;
        struct error err;
        context.facts.cwd = rows[i].cwd;
        is_int(decide(&context, &plan, &err), 0, "'%s': decided", rows[i].program);
        if (rows[i].reason == NULL)
            is_str(plan.reason, restore_unavailable(), "'%s': warm, where anything is", rows[i].program);
        else if (!ok(plan.reason != NULL && strstr(plan.reason, rows[i].reason) != NULL, "'%s': cold, %s",
                     rows[i].program, rows[i].reason))
            diag("%s", plan.reason != NULL ? plan.reason : "(warm)");
    }
}

static const char *const command[] = {"python3", "-c", "pass", NULL};

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#define LOADER  "/lib/ld-linux-aarch64.so.1"
#else
#define MACHINE EM_X86_64
#define LOADER  "/lib64/ld-linux-x86-64.so.2"
#endif

/* An interpreter as small as possible: it needs one library, and exports one symbol. */
struct copy {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    Elf64_Dyn dynamic[6];
    Elf64_Sym symbols[2];
    struct {
        uint32_t buckets, first, filter_words, shift;
        uint64_t filter;
        uint32_t bucket, hash;
    } names;
    uint64_t version;
    char loader[32], strings[64];
};

static struct copy make_copy(const char *library, const char *symbol, uint64_t version)
{
    const size_t place = strlen(library) + 2;
    struct copy c = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                   .e_machine = MACHINE,
                   .e_phoff = offsetof(struct copy, segments),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 3},
        .segments = {{.p_type = PT_LOAD, .p_filesz = sizeof(c)},
                     {.p_type = PT_INTERP,
                      .p_offset = offsetof(struct copy, loader),
                      .p_filesz = sizeof(c.loader)},
                     {.p_type = PT_DYNAMIC, .p_offset = offsetof(struct copy, dynamic)}},
        .dynamic = {{DT_NEEDED, {1}},
                    {DT_STRTAB, {offsetof(struct copy, strings)}},
                    {DT_SYMTAB, {offsetof(struct copy, symbols)}},
                    {DT_GNU_HASH, {offsetof(struct copy, names)}}},
        .symbols =
            {{0}, {.st_name = (Elf64_Word)place, .st_shndx = 1, .st_value = offsetof(struct copy, version)}},
        .names = {.buckets = 1, .first = 1, .filter_words = 1, .bucket = 1},
        .version = version,
        .loader = LOADER,
    };
    uint32_t hash = 5381;
    for (const char *p = symbol; *p != '\0'; p++)
        hash = hash * 33 + (unsigned char)*p;
    c.names.hash = hash | 1; /* the last of its bucket */
    memcpy(c.strings + 1, library, strlen(library));
    memcpy(c.strings + place, symbol, strlen(symbol));
    return c;
}

static void test_versions(void)
{
    static const struct {
        const char *library, *symbol;
        uint64_t version;
        const char *reason; /* a part of it; NULL: warm, with the version */
        unsigned minor;
    } rows[] = {
        {"libpython3.12.so.1.0", "main", 0, NULL, 12},
        {"libpython3.9.so", "main", 0, NULL, 9},
        {"libpython3.13t.so.1.0", "main", 0, "free-threaded Python is not supported", 0},
        {"libpython3.11d.so.1.0", "main", 0, "is not CPython", 0},
        {"libpython3.so", "main", 0, "is not CPython", 0},
        {"libpython3.8.so.1.0", "main", 0, "Python 3.8 is not supported", 0},
        {"libc.so.6", "Py_Version", 0x030f02f0, NULL, 15},
        {"libc.so.6", "Py_Version", 0x031002f0, "Python 3.16 is not supported", 0},
        {"libc.so.6", "Py_Version", 0x040002f0, "is not CPython", 0},
        {"libc.so.6", "Py_NewRef", 0, NULL, 10},
        {"libc.so.6", "PyModule_AddType", 0, NULL, 9},
        {"libc.so.6", "_Py_DecRefShared", 0, "free-threaded Python is not supported", 0},
        {"libc.so.6", "main", 0, "is not CPython 3.9 or later: it exports no function that tells", 0},
    };
    static const char *const argv[] = {"/opt/copies/python", "-c", "pass", NULL};
    make_directories((const char *const[]){"opt/copies", NULL});
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct copy copy = make_copy(rows[i].library, rows[i].symbol, rows[i].version);
        struct warm_context context = context_of(argv);
        struct warm_plan plan;
        struct error err;
        unlinkat(root, "opt/copies/python", 0);
        put_program("opt/copies/python", &copy, sizeof(copy));
        is_int(decide(&context, &plan, &err), 0, "%s, %s: decided", rows[i].library, rows[i].symbol);
        if (rows[i].reason != NULL)
            ok(plan.reason != NULL && strstr(plan.reason, rows[i].reason) != NULL, "… cold: %s", plan.reason);
        else
            is_str(plan.reason, restore_unavailable(), "… warm, where anything is");
        if (rows[i].reason == NULL && restore_unavailable() == NULL)
            is_int(plan.minor, rows[i].minor, "… the version");
    }
}

static void test_obstacles(void)
{
    struct warm_plan plan;
    struct error err;
    struct warm_context hindered = context_of(command);
    hindered.obstacle = "the policy";
    decide(&hindered, &plan, &err);
    ok(plan.reason != NULL, "a label that cannot be set");
    is_str(plan.reason, "the policy", "… with its reason");
    static const struct {
        const char *variable;
        bool cold;
    } rows[] = {
        {"PYTHONINSPECT=1", true},     {"PYTHONINSPECT=", false}, {"PYTHONTRACEMALLOC=1", true},
        {"PYTHONHASHSEED=7", false},   {"LD_DEBUG=all", true},    {"PYTHONINSPECTOR=1", false},
        {"PYTHONUNBUFFERED=1", false}, {"PYTHONVERBOSE=1", true}, {"PYTHONPROFILEIMPORTTIME=1", true}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *const envp[] = {rows[i].variable, NULL};
        struct warm_context context = context_of(command);
        context.facts.envp = (char *const *)(uintptr_t)envp;
        decide(&context, &plan, &err);
        ok((plan.reason == restore_unavailable()) == !rows[i].cold, "%s: %s", rows[i].variable,
           rows[i].cold ? "cold" : "warm, where anything is");
    }
}

static void test_preload(void)
{
    struct warm_plan plan;
    struct error err;
    struct warm_context context = context_of(command);
    decide(&context, &plan, &err);
    is_int(plan.preload.count, 0, "no annotation: a bare interpreter");
    annotate(WARM_ANNOTATION_PRELOAD, " pandas, numpy,pandas,xml.etree.ElementTree");
    decide(&context, &plan, &err);
    if (is_int(plan.preload.count, 3, "each module once")) {
        is_str(plan.preload.items[0], "numpy", "sorted");
        is_str(plan.preload.items[2], "xml.etree.ElementTree", "with packages");
    }
    context = context_of(command);
    annotate(WARM_ANNOTATION_PRELOAD, "pandas /second numpy /first pandas");
    decide(&context, &plan, &err);
    if (is_int(plan.preload.count, 4, "directories and modules")) {
        is_str(plan.preload.items[0], "/second", "directories come first");
        is_str(plan.preload.items[1], "/first", "in the order of the search");
        is_str(plan.preload.items[2], "numpy", "then modules, sorted");
        is_str(plan.preload.items[3], "pandas", "each once");
    }
    static const char *const bad[] = {"os; import sys", "1a",  "a..b", ".a", "a.", "a-b",
                                      "--help",         "a/b", "-c"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        context = context_of(command);
        annotate(WARM_ANNOTATION_PRELOAD, bad[i]);
        is_int(decide(&context, &plan, &err), -EINVAL, "'%s' is no module", bad[i]);
        ok(strstr(err.text, "annotations[\"run.pysbx.preload\"]: '") == err.text, "and is named: %s",
           err.text);
    }
}

static bool sees(const struct root_view *at, const char *path, const char *same_as)
{
    struct file_identity a, b;
    cleanup_fd int fd = root_view_open(at, path, O_PATH);
    return fd >= 0 && identity_of(fd, &a) == 0 && identity_at(root, same_as, true, &b) == 0 &&
           identity_equal(&a, &b);
}

static void test_root_view(void)
{
    const char *bind[] = {"rbind"}, *file = arena_printf(&arena, "%s/usr/bin/python3.11", root_path),
               *tree = arena_printf(&arena, "%s/usr", root_path);
    struct spec_mount mounts[] = {
        {.destination = "/proc", .type = "proc", .source = "proc"},
        {.destination = "/data", .type = "bind", .source = tree},
        {.destination = "/data/tmp/", .type = "tmpfs"},
        {.destination = "/opt/../one", .type = "none", .source = file, .options = {bind, 1}},
        {.destination = "/two", .type = "bind", .source = "usr/lib"},
        {.destination = "/gone", .type = "bind", .source = "/nonexistent/directory"},
    };
    struct spec spec = {.mounts = {mounts, COUNT(mounts)}};
    struct root_view at;
    root_view_plan(&arena, &spec, root, root_path, &at);
    ok(sees(&at, "/usr/bin", "usr/bin"), "the root");
    ok(sees(&at, "/data/bin/python3.11", "usr/bin/python3.11"), "a bind mount");
    ok(sees(&at, "/data/bin/python", "usr/bin/python3.11"), "a link within a bind mount");
    ok(sees(&at, "/data", "usr"), "the mount itself");
    ok(sees(&at, "/datax", "datax") == false, "not a name that only begins alike");
    ok(sees(&at, "/one", "usr/bin/python3.11"), "a file that is mounted");
    ok(sees(&at, "/two/python3.11", "usr/lib/python3.11"), "a source in the bundle");
    is_int(root_view_open(&at, "/data/tmp/x", O_PATH), -EXDEV, "a tmpfs cannot be seen");
    is_int(root_view_open(&at, "/proc/self", O_PATH), -EXDEV, "/proc cannot either");
    is_int(root_view_open(&at, "/gone/x", O_PATH), -ENOENT, "a source that does not exist");
    is_int(root_view_open(&at, "/opt/out/passwd", O_PATH), -ENOENT, "a link does not lead out of the root");
    ok(!root_view_is_exact(&at), "a directory without its submounts may look different inside");
}

/* Links and mounts on each other's paths, resolved as in path_resolution(7). */
static void test_look_through(void)
{
    const char *bind[] = {"rbind"}, *tree = arena_printf(&arena, "%s/usr", root_path),
               *file = arena_printf(&arena, "%s/usr/bin/python3.11", root_path);
    struct spec_mount mounts[] = {
        {.destination = "/elsewhere/usr", .type = "bind", .source = tree, .options = {bind, 1}},
        {.destination = "/hidden/below", .type = "bind", .source = tree, .options = {bind, 1}},
        {.destination = "/hidden", .type = "bind", .source = tree, .options = {bind, 1}},
        {.destination = "/tmp", .type = "tmpfs"},
        {.destination = "/tmp/python3.11", .type = "bind", .source = file},
        {.destination = "/tmp/tree", .type = "bind", .source = tree, .options = {bind, 1}},
        {.destination = "/opt/there/file", .type = "bind", .source = file},
    };
    struct spec spec = {.mounts = {mounts, COUNT(mounts) - 1}};
    struct root_view at;
    link_to("/elsewhere/usr/bin/python", "opt/absolute");
    link_to("../elsewhere/./usr/../usr/bin", "opt/relative");
    link_to("loop", "opt/loop");
    link_to("/usr/lib", "opt/there");
    link_to("/tmp/x", "opt/unseen");
    root_view_plan(&arena, &spec, root, root_path, &at);
    ok(sees(&at, "/opt/absolute", "usr/bin/python3.11"),
       "a link from the root into a mount, and on from there");
    ok(sees(&at, "/opt/relative/python3", "usr/bin/python3.11"), "a relative one in the path");
    ok(sees(&at, "/opt/venv/bin/python", "usr/bin/python3.11"), "one within the root");
    ok(sees(&at, "/hidden/bin/python3", "usr/bin/python3.11"), "a later mount");
    is_int(root_view_open(&at, "/hidden/below/bin", O_PATH), -ENOENT, "… hides an earlier one below it");
    ok(sees(&at, "/tmp/python3.11", "usr/bin/python3.11"), "a file that is mounted in a tmpfs");
    ok(sees(&at, "/tmp/tree/bin/python", "usr/bin/python3.11"), "a link in a directory that is");
    is_int(root_view_open(&at, "/opt/loop", O_PATH), -ELOOP, "a link to itself");
    is_int(root_view_open(&at, "/opt/unseen", O_PATH), -EXDEV, "a link to an invisible path");
    is_int(root_view_open(&at, "/elsewhere/usr/bin/none", O_PATH), -ENOENT, "a missing path");
    is_int(root_view_open(&at, "/opt/../../../etc/passwd", O_PATH), -ENOENT, "no path above the root");
    ok(root_view_is_mounted(&at, "/tmp", "python3.11"), "a mount on a name");
    ok(root_view_is_mounted(&at, "/", "elsewhere"), "one beneath it");
    ok(!root_view_is_mounted(&at, "/elsewhere/usr", "bin") && !root_view_is_mounted(&at, "/tmp", "python3.1"),
       "none");
    ok(root_view_is_exact(&at), "nothing in there looks different inside");
    spec.mounts.count++;
    root_view_plan(&arena, &spec, root, root_path, &at);
    ok(!root_view_is_exact(&at), "a mount point behind a link may be elsewhere inside");
}

static int read_config(const char *text, struct warm_config *config, struct error *err)
{
    const char *path = arena_printf(&arena, "%s/warm.json", root_path);
    (void)unlink(path);
    if (io_create_file_at(AT_FDCWD, path, text, strlen(text), 0644) < 0)
        bail_out("write '%s'", path);
    return warm_config_read(&arena, path, true, config, err);
}

static void test_config(void)
{
    struct warm_config defaults = {0}, config = {0};
    struct error err = {0};
    is_int(warm_config_read(&arena, "/nonexistent/warm.json", true, &defaults, &err), 0,
           "no file: the defaults");
    if (is_int(warm_config_read(&arena, "config/warm.json", true, &config, &err), 0,
               "the example can be read")) {
        ok(strcmp(config.mode, defaults.mode) == 0 && config.second_run == defaults.second_run &&
               config.wait_for_build == defaults.wait_for_build &&
               config.rebuild_expired == defaults.rebuild_expired && config.max_age == defaults.max_age &&
               config.max_uses == defaults.max_uses && config.max_size == defaults.max_size &&
               config.retry_after == defaults.retry_after &&
               config.builder.timeout == defaults.builder.timeout &&
               config.builder.memory == defaults.builder.memory && config.rules.count == 0,
           "and holds the defaults");
    }
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{\"maxage\": 1}", "maxage: unknown key"},
        {"{\"maxAge\": \"1\"}", "maxAge: expected"},
        {"{\"maxAge\": 0}", "maxAge: "},
        {"{\"mode\": \"on\"}", "mode: unknown value 'on' (known: auto, require, optIn, off)"},
        {"{\"template\": {\"cpu\": 1}}", "template.cpu: unknown key"},
        {"{\"template\": {\"timeout\": 0}}", "template.timeout: "},
        {"{\"rules\": [{\"value\": \"x\"}]}", "rules[0]"},
        {"{\"rules\": [{\"annotation\": \"a\", \"value\": \"x\", \"preload\": [], \"x\": 1}]}",
         "rules[0].x: unknown key"},
        {"[]", "expected an object"},
        {"{", "line 1"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        is_int(read_config(rows[i].text, &config, &err), -EINVAL, "%s: an error", rows[i].text);
        if (!ok(strstr(err.text, rows[i].error) != NULL && strstr(err.text, "warm.json: ") != NULL,
                "that names file and position"))
            diag("%s", err.text);
    }
    is_int(
        read_config(
            "{\"rules\": [{\"annotation\": \"org.opencontainers.image.title\", \"value\": \"science-*\","
            " \"preload\": [\"pandas\", \"numpy\"]}, {\"annotation\": \"a\", \"value\": \"*\", \"preload\":"
            " [\"json\"]}], \"mode\": \"require\", \"template\": {\"memory\": 1}}",
            &config, &err),
        0, "rules");
    ok(config.builder.memory == 1 && config.builder.timeout == defaults.builder.timeout,
       "omitted keys keep their default");

    struct warm_context context = context_of(command);
    struct warm_plan plan;
    context.config = arena_printf(&arena, "%s/warm.json", root_path);
    annotate("org.opencontainers.image.title", "science-3");
    int expected =
        restore_unavailable() == NULL ? 0 : -ENOTSUP; /* "require" where warm starts are unavailable */
    is_int(decide(&context, &plan, &err), expected, "a rule fits");
    ok(plan.preload.count == 2 && strcmp(plan.preload.items[0], "numpy") == 0, "its modules are preloaded");
    is_int(plan.mode, WARM_REQUIRE, "the mode of the configuration");
    annotate(WARM_ANNOTATION_PRELOAD, "");
    is_int(decide(&context, &plan, &err), expected, "an annotation of the container's own");
    is_int(plan.preload.count, 0, "counts before every rule");
}

/* An annotation cannot enable what the configuration disables. */
static void test_configured_modes(void)
{
    struct warm_config config;
    struct warm_plan plan;
    struct error err = {0};
    int required = restore_unavailable() == NULL ? 0 : -ENOTSUP;
    static const struct {
        const char *configured, *annotation, *reason;
        int code;
    } modes[] = {
        {"off", NULL, "switched off in warm.json", 0},
        {"off", "auto", "switched off in warm.json", 0},
        {"off", "require", "switched off in warm.json", -ENOTSUP},
        {"off", "off", "switched off in warm.json", 0},
        {"optIn", NULL, "switched off", 0},
        {"optIn", "off", "switched off", 0},
        {"optIn", "auto", NULL, 0},
        {"optIn", "require", NULL, 0},
        {"auto", "off", "switched off", 0},
    };
    for (size_t i = 0; i < COUNT(modes); i++) {
        struct warm_context context = context_of(command);
        context.config = arena_printf(&arena, "%s/warm.json", root_path);
        is_int(read_config(arena_printf(&arena, "{\"mode\": \"%s\"}", modes[i].configured), &config, &err), 0,
               "%s", modes[i].configured);
        if (modes[i].annotation != NULL)
            annotate(WARM_ANNOTATION_MODE, modes[i].annotation);
        bool warm = modes[i].reason == NULL;
        int code = warm && str_eq(modes[i].annotation, "require") ? required : modes[i].code;
        is_int(decide(&context, &plan, &err), code, "'%s' of an annotation", modes[i].annotation);
        is_str(plan.reason, warm ? restore_unavailable() : modes[i].reason, "and '%s' in warm.json",
               modes[i].configured);
    }
}

int main(void)
{
    make_root();
    test_programs();
    test_versions();
    test_obstacles();
    test_preload();
    test_root_view();
    test_look_through();
    test_config();
    test_configured_modes();
    char *remove = arena_printf(&arena, "rm -rf %s", root_path);
    if (system(remove) != 0) // NOLINT(cert-env33-c): a test's own directory
        bail_out("cannot clean up");
    arena_free(&arena);
    return done_testing();
}
