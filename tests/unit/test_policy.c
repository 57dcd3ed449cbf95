/* runtime.json: its content, and the checks of the file. */
#include "spec/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena;
static char directory[] = "/tmp/test-policy.XXXXXX";

static int parse(const char *text, struct policy *out, struct error *err)
{
    *err = (struct error){0};
    return policy_parse(&arena, text, strlen(text), out, err);
}

static void test_text(void)
{
    struct policy policy;
    struct error err = {0};
    is_int(policy_read(&arena, "/nonexistent/runtime.json", true, &policy, &err), 0, "no file: the defaults");
    ok(policy.keep_groups && policy.allow.count == 0, "only the caller's groups");
    char *text;
    size_t size;
    is_int(io_read_file_at(&arena, AT_FDCWD, "config/runtime.json", 4096, &text, &size), 0, "the example");
    policy = (struct policy){.allow.count = 1};
    is_int(policy_parse(&arena, text, size, &policy, &err), 0, "can be read");
    ok(policy.keep_groups && !policy.landlock_log && policy.allow.count == 0, "and holds the defaults");
    is_int(parse("{\"allowAnnotations\": [\"run.oci.hooks.stderr\", \"org.systemd.property.*\"],"
                 " \"keepOriginalGroups\": false}",
                 &policy, &err),
           0, "both keys");
    ok(!policy.keep_groups && !policy.landlock_log && policy.allow.count == 2, "are decoded");
    ok(policy_allows(&policy, "run.oci.hooks.stderr") && !policy_allows(&policy, "run.oci.hooks.stdout"),
       "a name stands for itself");
    ok(policy_allows(&policy, "org.systemd.property.KillMode"), "a star for all that begin so");
    is_int(parse("{\"allowAnnotations\": [\"org.systemd.property.KillMode\"]}", &policy, &err), 0,
           "one property");
    ok(policy_allows(&policy, "org.systemd.property.KillMode") &&
           !policy_allows(&policy, "org.systemd.property.SendSIGHUP"),
       "and no other");
}

static void test_mistakes(void)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{\"allow\": []}", "allow: unknown key"},
        {"{\"allowAnnotations\": \"run.oci.hooks.stderr\"}", "allowAnnotations: expected an array"},
        {"{\"allowAnnotations\": [\"run.oci.hooks.stderr\", 1]}", "allowAnnotations[1]: expected a string"},
        {"{\"allowAnnotations\": [\"run.oci.hook.stderr\"]}",
         "allowAnnotations[0]: 'run.oci.hook.stderr' is not"},
        {"{\"allowAnnotations\": [\"run.oci.hooks.*\"]}", "allowAnnotations[0]: 'run.oci.hooks.*' is not"},
        {"{\"allowAnnotations\": [\"*\"]}", "allowAnnotations[0]: '*' is not"},
        {"{\"allowAnnotations\": [\"run.pysbx.warm\"]}", "allowAnnotations[0]: 'run.pysbx.warm' is not"},
        {"{\"allowAnnotations\": [\"run.oci.keep_original_groups\"]}", "allowAnnotations[0]: 'run.oci.keep"},
        {"{\"allowAnnotations\": [\"org.systemd.property.\"]}",
         "allowAnnotations[0]: 'org.systemd.property.' is"},
        {"{\"allowAnnotations\": [\"org.systemd.property.Kill*\"]}", "allowAnnotations[0]: 'org.systemd"},
        {"{\"landlockLog\": \"true\"}", "landlockLog: expected"},
        {"{\"keepOriginalGroups\": 0}", "keepOriginalGroups: expected"},
        {"[]", "expected an object"},
        {"{", "line 1"},
        {"", "empty"},
    };
    struct policy policy;
    struct error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        is_int(parse(rows[i].text, &policy, &err), -EINVAL, "%s: an error", rows[i].text);
        if (!ok(strstr(err.text, rows[i].error) != NULL, "that names the position"))
            diag("%s", err.text);
    }
}

static void change(const char *command)
{
    const char *whole =
        arena_printf(&arena,
                     "cd %s && chown -R 0:0 . && rm -rf runtime.json && printf '{}' >runtime.json && "
                     "chmod 0755 . && chmod 0644 runtime.json && %s",
                     directory, command);
    if (system(whole) != 0)
        bail_out("%s", whole);
}

static void test_guard(void)
{
    static const struct {
        const char *command, *error, *user_error; /* NULL: the file is read */
    } rows[] = {
        {"true", NULL, NULL},
        {"chmod 0400 runtime.json", NULL, NULL},
        {"chmod 0664 runtime.json", "/runtime.json' may be written by others", "may be written by others"},
        {"chmod 0646 runtime.json", "may be written by others than its owner (mode 0646)", "mode 0646"},
        {"chmod 0775 .", "/' may be written by others than its owner (mode 0775)", "mode 0775"},
        {"chmod 1777 .", "/' may be written by others than its owner (mode 01777)", "mode 01777"},
        {"chown 4711 runtime.json", "/runtime.json' belongs to user 4711", NULL},
        {"chown 4711 .",
         "/' belongs to user 4711: it decides what annotations may do, and has to belong to root", NULL},
        {"chown 4712 runtime.json", "belongs to user 4712", "has to belong to the caller or root"},
        {"mv runtime.json real && ln -s real runtime.json", "is a symbolic link", "is a symbolic link"},
        {"rm runtime.json && mkdir runtime.json", "is not a regular file", "is not a regular file"},
        {"rm runtime.json && mkfifo runtime.json", "is not a regular file", "is not a regular file"},
        {"rm runtime.json && ln -s /nonexistent runtime.json", "is a symbolic link", "is a symbolic link"},
    };
    struct policy policy;
    if (geteuid() != 0) {
        ok(true, "# SKIP needs root: files are given to other users");
        return;
    }
    if (mkdtemp(directory) == NULL)
        bail_out("make a directory");
    const char *path = arena_printf(&arena, "%s/runtime.json", directory);
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int user = 0; user < 2; user++) {
            struct error err = {0};
            change(rows[i].command);
            const char *expected = user ? rows[i].user_error : rows[i].error;
            if (user && seteuid(4711) < 0)
                bail_out("become user 4711");
            int ret = policy_read(&arena, path, !user, &policy, &err);
            if (seteuid(0) < 0)
                bail_out("become root again");
            bool unreadable = user && strcmp(rows[i].command, "chmod 0400 runtime.json") == 0;
            if (unreadable)
                expected = "open '";
            if (!ok((ret < 0) == (expected != NULL) &&
                        (expected == NULL || strstr(err.text, expected) != NULL),
                    "%s: %s%s", user ? "a user" : "root", rows[i].command, expected ? " is refused" : ""))
                diag("%d %s", ret, err.text);
        }
    if (system(arena_printf(&arena, "rm -rf %s", directory)) != 0)
        diag("'%s' is left", directory);
}

int main(void)
{
    test_text();
    test_mistakes();
    test_guard();
    arena_free(&arena);
    return done_testing();
}
