/* Manifests: variables and owners are compared, damage is an error, and shadowing files are noticed. The bats
 * tests of stale snapshots change files of every kind. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "unit.h"
#include "warm/command_line.h"
#include "warm/manifest/manifest.h"
#include "warm/owners.h"
#include "warm/root_view.h"

static char root_path[] = "/tmp/pysbx-unit.XXXXXX";
static int root;
static const struct owners owners = {.text = "same"};
static const char *home_of_builder; /* NULL: its environment has HOME */

static void put(const char *path, const char *text)
{
    if (io_replace_file_at(root, path, text, strlen(text), 0644) < 0)
        bail_out("cannot write '%s'", path);
}

static void make_directory(const char *path)
{
    if (mkdirat(root, path, 0755) < 0 && errno != EEXIST)
        bail_out("cannot make '%s'", path);
}

/* io_replace_file_at writes next to the target by name only, so one directory at a time. */
static void put_in(const char *directory, const char *name, const char *text)
{
    cleanup_fd int dir = openat(root, directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || io_replace_file_at(dir, name, text, strlen(text), 0644) < 0)
        bail_out("cannot write '%s/%s'", directory, name);
}

static void link_to(const char *target, const char *path)
{
    if (symlinkat(target, root, path) < 0)
        bail_out("symlink '%s'", path);
}

#define REPORT(text) (text), sizeof(text) - 1

static const char report[] = "v3.11.2 (main)\0"
                             "f/lib/a.py\0f/lib/b.py\0f/lib/a.py\0f/lib/link.py\0f/lib/none.pyc\0"
                             "f/zip/x.zip/inner/mod.py\0"
                             "d/lib\0d/linked\0"
                             "p/present/file\0D/present/directory\0D/present\0p/lib/b.py\0"
                             "a/absent/deep/er\0a/lib/pyvenv.cfg\0"
                             "mjson\0mnumpy\0mjson\0"
                             "eFOO\0eBAR\0"
                             "r";

static char *const builder_environment[] = {(char[]){"FOO=1"}, (char[]){"OTHER=2"}, NULL};

static struct manifest *build_for(struct arena *a, const struct owners *seen, const char *text, size_t size,
                                  char *const *envp)
{
    static const char key_text[] = "kernel=6\0program=/bin/python3";
    struct warm_key key = {.text = key_text, .size = sizeof(key_text)};
    struct root_view view = {.root = root};
    key_name(key.text, key.size, key.name);
    struct manifest_source source = {.report = text,
                                     .report_size = size,
                                     .key = &key,
                                     .envp = envp,
                                     .home = home_of_builder,
                                     .view = &view,
                                     .owners = seen,
                                     .builder = "1.0-test",
                                     .began = INT64_MAX,
                                     .built = 1234};
    void *data;
    size_t length;
    struct error err = {0};
    struct manifest *m;
    if (manifest_build(a, &source, &data, &length, &err) < 0)
        bail_out("build: %s", err.text);
    if (manifest_open(a, data, length, &m, &err) < 0)
        bail_out("open: %s", err.text);
    return m;
}

static struct manifest *build(struct arena *a, const char *text, size_t size, char *const *envp)
{
    return build_for(a, &owners, text, size, envp);
}

static void make_tree(void)
{
    make_directory("lib");
    make_directory("zip");
    make_directory("app");
    make_directory("target");
    make_directory("present");
    make_directory("present/directory");
    put_in("present", "file", "first");
    put_in("lib", "a.py", "a");
    put_in("lib", "b.py", "b");
    put_in("target", "real.py", "real");
    put_in("zip", "x.zip", "zip");
    link_to("../target/real.py", "lib/link.py");
    link_to("lib", "linked");
}

static void remove_tree(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s/*", root_path);
    if (system(command) != 0) // NOLINT(cert-env33-c): a test's own directory
        bail_out("cannot clean up");
}

static void test_facts(void)
{
    struct arena a = {0};
    struct manifest_facts facts;
    make_tree();
    manifest_describe(build(&a, report, sizeof(report), builder_environment), &facts);
    is_str(facts.python, "3.11.2 (main)", "version of the interpreter");
    is_str(facts.builder, "1.0-test", "version of the runtime");
    is_int(facts.built, 1234, "time of building");
    is_int(facts.module_count, 2, "each module once");
    is_str(facts.key.text, "kernel=6", "text of the key");
    remove_tree();
    arena_free(&a);
}

static int check(struct manifest *m, const char *const *envp)
{
    struct error err;
    return manifest_check_environment(m, (char *const *)(uintptr_t)envp, &err);
}

static void test_environment(void)
{
    struct arena a = {0};
    struct manifest *m = build(&a, report, sizeof(report), builder_environment);
    is_int(check(m, (const char *const[]){"OTHER=3", "FOO=1", NULL}), 0, "the read variables are the same");
    is_int(check(m, (const char *const[]){"FOO=2", NULL}), -ESTALE, "another value");
    is_int(check(m, (const char *const[]){"FOO=", NULL}), -ESTALE, "an empty value");
    is_int(check(m, (const char *const[]){"FOOT=1", NULL}), -ESTALE, "no longer set");
    is_int(check(m, (const char *const[]){"FOO=1", "BAR=", NULL}), -ESTALE, "set now");

    static const char all[] = "v3\0E\0r";
    char *const own[] = {(char[]){"FOO=1"}, (char[]){"HOSTNAME=a"}, NULL};
    m = build(&a, all, sizeof(all), own);
    is_int(check(m, (const char *const[]){"FOO=1", "HOSTNAME=b", NULL}), 0,
           "all read: HOSTNAME belongs to the engine");
    is_int(check(m, (const char *const[]){"FOO=1", "NEW=1", NULL}), -ESTALE, "all read: one more");
    is_int(check(m, (const char *const[]){"HOSTNAME=a", NULL}), -ESTALE, "all read: one fewer");

    static const char home[] = "v3\0eHOME\0r";
    char *const homeless[] = {NULL};
    home_of_builder = "HOME=/root";
    m = build(&a, home, sizeof(home), homeless);
    is_int(check(m, (const char *const[]){"HOME=/root", NULL}), 0, "the same HOME from /etc/passwd");
    is_int(check(m, (const char *const[]){"HOME=/", NULL}), -ESTALE, "another HOME from /etc/passwd");
    static const char whole[] = "v3\0E\0r";
    m = build(&a, whole, sizeof(whole), homeless);
    is_int(check(m, (const char *const[]){"HOME=/root", NULL}), 0, "all read: the same HOME");
    is_int(check(m, (const char *const[]){"HOME=/", NULL}), -ESTALE, "all read: another HOME");
    home_of_builder = NULL;

    static const char named[] = "v3\0E\0eHOSTNAME\0r";
    m = build(&a, named, sizeof(named), own);
    is_int(check(m, (const char *const[]){"FOO=1", "HOSTNAME=b", NULL}), -ESTALE,
           "HOSTNAME read by its name counts");
    arena_free(&a);
}

/* Set an access list with one more user: struct posix_acl_xattr_header and entries of
 * linux/posix_acl_xattr.h. */
static bool set_acl(const char *path)
{
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, rights;
            uint32_t id;
        } entries[5];
    } acl = {
        2, {{1, 6, UINT32_MAX}, {2, 4, 12345}, {4, 4, UINT32_MAX}, {16, 4, UINT32_MAX}, {32, 4, UINT32_MAX}}};
    cleanup_fd int fd = openat(root, path, O_RDONLY | O_CLOEXEC);
    return fsetxattr(fd, "system.posix_acl_access", &acl, sizeof(acl), 0) == 0;
}

static void test_owners(void)
{
    struct spec_idmap uid = {0, geteuid(), 1}, gid = {0, getegid(), 1}, none = {0, 1900000000, 1};
    const struct owners mine = {"mine", true, {&uid, 1}, {&gid, 1}, 65534, 65534},
                        others = {"others", true, {&none, 1}, {&gid, 1}, 65534, 65534};
    struct arena a = {0};
    struct root_view view = {.root = root};
    struct error err = {0};
    make_tree();
    struct manifest *m = build(&a, report, sizeof(report), builder_environment);
    ok(manifest_has_owners(m, &owners) && !manifest_has_owners(m, &mine),
       "the text of the mappings tells them apart");
    is_int(manifest_verify_as_seen(m, &view, &err), 0, "this process sees the owners as the builder did");
    m = build_for(&a, &others, report, sizeof(report), builder_environment);
    is_int(manifest_verify(m, &view, NULL, &err), 0, "with the same mapping, owners are not compared");
    is_int(manifest_verify_as_seen(m, &view, &err), -ESTALE, "an owner that the builder saw unmapped");
    ok(strstr(err.text, "belongs to another user or group in this container") != NULL, "the error says so");
    if (geteuid() == 0) {
        m = build_for(&a, &mine, report, sizeof(report), builder_environment);
        is_int(manifest_verify_as_seen(m, &view, &err), 0,
               "a mapped owner is compared as the container sees it");
        if (fchownat(root, "lib/b.py", 1, (gid_t)-1, 0) < 0)
            bail_out("chown");
        m = build_for(&a, &mine, report, sizeof(report), builder_environment);
        is_int(manifest_verify_as_seen(m, &view, &err), -ESTALE, "the owner of one file");
        ok(strstr(err.text, "'/lib/b.py' belongs to") != NULL, "the error names the file");
    }
    remove_tree();
    make_tree();
    if (set_acl("lib/a.py")) {
        m = build(&a, report, sizeof(report), builder_environment);
        is_int(manifest_verify(m, &view, NULL, &err), 0, "the same mapping and an access list");
        is_int(manifest_verify_as_seen(m, &view, &err), -ESTALE, "an access list has IDs of the host");
    }
    remove_tree();
    arena_free(&a);
}

static void test_reports(void)
{
    static const struct {
        const char *name, *text;
        size_t size;
        int code;
    } rows[] = {
        {"no end", REPORT("v3\0f/lib/a.py\0"), -EPROTO},
        {"cut off", REPORT("v3\0r"), -EPROTO},
        {"empty", REPORT(""), -EPROTO},
        {"a relative directory", REPORT("v3\0wtmp\0r"), -EPROTO},
        {"no version", REPORT("f/lib\0r\0"), -EPROTO},
        {"a relative path", REPORT("v3\0flib/a.py\0r\0"), -EPROTO},
        {"an unknown record", REPORT("v3\0q\0r\0"), -EPROTO},
        {"an empty record", REPORT("v3\0\0r\0"), -EPROTO},
        {"a failure", REPORT("v3\0xnumpy: no module\0r\0"), -ENOEXEC},
    };
    struct arena a = {0};
    struct root_view view = {.root = root};
    struct warm_key key = {.text = "k=1", .size = 4};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {0};
        void *data;
        size_t size;
        struct manifest_source source = {.report = rows[i].text,
                                         .report_size = rows[i].size,
                                         .key = &key,
                                         .envp = builder_environment,
                                         .view = &view,
                                         .owners = &owners,
                                         .builder = "",
                                         .began = INT64_MAX};
        is_int(manifest_build(&a, &source, &data, &size, &err), rows[i].code, "report: %s", rows[i].name);
        if (rows[i].code == -ENOEXEC)
            is_str(err.text, "numpy: no module", "the builder's own words");
    }
    arena_free(&a);
}

/* Any flipped bit or missing byte is an error or other content, and never an invalid access (detected by
 * check-sanitize). */
static void test_damage(void)
{
    struct arena a = {0};
    static const char key_text[] = "k=1";
    struct warm_key key = {.text = key_text, .size = sizeof(key_text)};
    struct root_view view = {.root = root};
    struct manifest_source source = {.report = report,
                                     .report_size = sizeof(report),
                                     .key = &key,
                                     .envp = builder_environment,
                                     .view = &view,
                                     .owners = &owners,
                                     .builder = "1",
                                     .began = INT64_MAX};
    void *data;
    size_t size;
    struct error err = {0};
    make_tree();
    if (manifest_build(&a, &source, &data, &size, &err) < 0)
        bail_out("build: %s", err.text);
    struct manifest *m;
    unsigned char *copy = arena_alloc(&a, size);
    bool refused = true;
    for (size_t cut = 0; cut < size; cut++)
        refused = refused && manifest_open(&a, data, cut, &m, &err) == -EUCLEAN;
    ok(refused, "every truncation is refused");
    size_t opened = 0;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        memcpy(copy, data, size);
        copy[bit / 8] ^= (unsigned char)(1U << bit % 8);
        if (manifest_open(&a, copy, size, &m, &err) < 0)
            continue;
        struct manifest_facts facts;
        opened++;
        manifest_describe(m, &facts);
        (void)manifest_verify(m, &view, NULL, &err);
        (void)check(m, (const char *const[]){"FOO=1", NULL});
        (void)manifest_check_shadow(m, &view, "/lib", &err);
    }
    diag("%zu of %zu flipped bits leave the form intact", opened, 8 * size);
    ok(opened > 0 && opened < 8 * size, "flipped bits are refused or harmless");
    remove_tree();
    arena_free(&a);
}

struct program {
    const char *name, *file;
    const char *argv[6];
    const char *shadow; /* the name that must appear, or NULL */
};

/* Write an archive behind a line of text, like zipapp: the central directory with one entry, and the end
 * record. */
static void put_archive(void)
{
    unsigned char bytes[23 + 46 + 7 + 22] = "#!/usr/bin/env python3\n";
    unsigned char *entry = bytes + 23, *end = entry + 46 + 7;
    memcpy(entry, (const char[]){'P', 'K', 1, 2}, 4);
    entry[28] = 7; /* length of the name */
    memcpy(entry + 46, (const char[]){'j', 's', 'o', 'n', '.', 'p', 'y'}, 7);
    memcpy(end, (const char[]){'P', 'K', 5, 6}, 4);
    end[12] = 46 + 7; /* size of the directory */
    put_in("app", "archive.pyz", "");
    cleanup_fd int fd = openat(root, "app/archive.pyz", O_WRONLY | O_CLOEXEC);
    if (io_write_full(fd, bytes, sizeof(bytes)) < 0)
        bail_out("cannot write the archive");
}

static void test_shadows(void)
{
    static const struct program rows[] = {
        {"nothing there", "app/other.py", {"python3", "-c", ""}, NULL},
        {"a module", "app/json.py", {"python3", "-c", ""}, "'/app/json.py' shadows"},
        {"a compiled module", "app/numpy.pyc", {"python3", "-m", "x"}, "'/app/numpy.pyc' shadows"},
        {"an extension", "app/json.cpython-311-x86_64-linux-gnu.so", {"python3", "-"}, "shadows"},
        {"a package", "app/json/", {"python3", "-c", ""}, "'/app/json' shadows"},
        {"a file that is no module", "app/json.txt", {"python3", "-c", ""}, NULL},
        {"a file without an end", "app/json", {"python3", "-c", ""}, NULL},
        {"a longer name", "app/jsonx.py", {"python3", "-c", ""}, NULL},
        {"a shorter name", "app/jso.py", {"python3", "-c", ""}, NULL},
        {"-I", "app/json.py", {"python3", "-I", "-c", ""}, NULL},
        {"-P", "app/json.py", {"python3", "-P", "-c", ""}, NULL},
        {"next to the script", "app/json.py", {"python3", "/app/run.py"}, "'/app/json.py' shadows"},
        {"not next to the script", "app/json.py", {"python3", "/run.py"}, NULL},
        {"at the target of the link to the script",
         "app/json.py",
         {"python3", "/linked.py"},
         "'/app/json.py' shadows"},
        {"a directory as the program", "app/json.py", {"python3", "-I", "."}, "shadows"},
        {"an archive", "app/other.py", {"python3", "-I", "archive.pyz"}, "archive.pyz/json.py' shadows"},
        {"a script that does not exist", "app/json.py", {"python3", "none.py"}, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct arena a = {0};
        struct error err = {0};
        struct root_view view = {.root = root};
        struct command_line line;
        make_directory("app");
        put_in("app", "run.py", "");
        put("run.py", "");
        put_archive();
        link_to("app/run.py", "linked.py");
        size_t length = strlen(rows[i].file);
        if (rows[i].file[length - 1] == '/')
            make_directory(rows[i].file);
        else
            put_in("app", rows[i].file + strlen("app/"), "");
        struct manifest *m = build(&a, report, sizeof(report), builder_environment);
        char *const *argv = (char *const *)(uintptr_t)rows[i].argv;
        if (command_line_parse(&a, argv, false, &line) != NULL)
            bail_out("command line");
        is_int(manifest_check_program(m, &view, &line, argv, "/app", &err),
               rows[i].shadow != NULL ? -EEXIST : 0, "shadow: %s", rows[i].name);
        if (rows[i].shadow != NULL &&
            !ok(strstr(err.text, rows[i].shadow) != NULL, "shadow: %s is named", rows[i].name))
            diag("%s", err.text);
        remove_tree();
        arena_free(&a);
    }
}

/* Relative to the process' root, as the container sees it. */
static void test_places(void)
{
    struct arena a = {0};
    struct error err = {0};
    char first[] = "/tmp/places.XXXXXX", second[] = "/tmp/places.XXXXXX", text[128];
    if (mkdtemp(first) == NULL || mkdtemp(second) == NULL)
        bail_out("mkdtemp: %s", strerror(errno));
    int size = snprintf(text, sizeof(text), "v3%cw%s%cw%s%cw%s%cr", 0, second, 0, first, 0, second, 0);
    struct manifest *m = build(&a, text, (size_t)size + 1, builder_environment);
    is_int(manifest_check_places(m, &err), 0, "files can be created in all directories");
    rmdir(second);
    is_int(manifest_check_places(m, &err), -ESTALE, "a directory is missing");
    ok(strstr(err.text, second) != NULL, "it is named");
    rmdir(first);
    arena_free(&a);
}

/* The times of a file in a tmpfs do not tell that a page was written to which is mapped already. */
static void test_mapped(void)
{
    static const struct {
        const char *name, *text;
        size_t size;
        int code;
    } rows[] = {
        {"a file that was read", REPORT("v3\0f/lib/a.py\0r\0"), -ESTALE},
        {"a file of which only the content was read", REPORT("v3\0c/lib/a.py\0r\0"), -ESTALE},
        {"a file of which only the status was read", REPORT("v3\0s/lib/a.py\0r\0"), 0},
        {"… and later the content", REPORT("v3\0s/lib/a.py\0c/lib/a.py\0r\0"), -ESTALE},
        {"… and later the presence", REPORT("v3\0s/lib/a.py\0p/lib/a.py\0r\0"), 0},
    };
    char path[] = "/dev/shm/pysbx-unit.XXXXXX";
    int usual = root;
    if (mkdtemp(path) == NULL || (root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        bail_out("'%s': %s", path, strerror(errno));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct arena a = {0};
        struct error err = {0};
        struct root_view view = {.root = root};
        make_directory("lib");
        put_in("lib", "a.py", "a");
        cleanup_fd int fd = openat(root, "lib/a.py", O_RDWR | O_CLOEXEC);
        volatile char *content = fd < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_WRITE, MAP_SHARED, fd, 0);
        if (content == MAP_FAILED)
            bail_out("map a file: %s", strerror(errno));
        content[0] = 'a';
        struct manifest *m = build(&a, rows[i].text, rows[i].size, builder_environment);
        is_int(manifest_verify(m, &view, NULL, &err), 0, "%s: unchanged", rows[i].name);
        content[0] = 'A';
        is_int(manifest_verify(m, &view, NULL, &err), rows[i].code, "%s: a mapped page changes",
               rows[i].name);
        munmap((void *)(uintptr_t)content, 1);
        unlinkat(root, "lib/a.py", 0);
        arena_free(&a);
    }
    unlinkat(root, "lib", AT_REMOVEDIR);
    close(root);
    rmdir(path);
    root = usual;
}

int main(void)
{
    if (mkdtemp(root_path) == NULL)
        bail_out("cannot make a directory");
    root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    test_mapped();
    test_facts();
    test_environment();
    test_places();
    test_owners();
    test_reports();
    test_damage();
    test_shadows();
    (void)rmdir(root_path);
    return done_testing();
}
