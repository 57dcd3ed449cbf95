/* resctrl groups, in a directory that resembles resctrl, because few machines have the hardware. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/io.h"
#include "sandbox/intelrdt.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;
static int root;

static void shell(const char *command)
{
    if (system(command) != 0)
        bail_out("%s", command);
}

/* The kernel creates these with the directory. Here they must exist before. */
static void make_group(const char *name, const char *schemata)
{
    char command[512];
    snprintf(command, sizeof(command),
             "mkdir -p %s/mon_groups && touch %s/tasks && printf '%s' > %s/schemata", name, name, schemata,
             name);
    shell(command);
}

static const char *content(const char *path)
{
    static char text[256];
    return io_read_small_at(root, path, text, sizeof(text)) < 0 ? NULL : text;
}

static struct intelrdt_plan plan_for(const struct spec_intel_rdt *rdt)
{
    struct intelrdt_plan plan;
    struct error err = {0};
    if (intelrdt_plan(&arena, rdt, "box", &plan, &err) < 0)
        bail_out("%s", err.text);
    return plan;
}

static void test_plan(void)
{
    struct error err = {0};
    struct intelrdt_plan plan;
    is_int(intelrdt_plan(&arena, NULL, "box", &plan, &err), 0, "no intelRdt");
    is_str(plan.group, NULL, "… is nothing to do");
    plan =
        plan_for(&(struct spec_intel_rdt){.l3_cache_schema = "L3:0=f\nMB:0=50", .mem_bw_schema = "MB:0=20"});
    is_str(plan.group, "box", "the group is named after the container");
    is_str(plan.schemata, "L3:0=f\nMB:0=20\n", "memBwSchema replaces a line of l3CacheSchema");
    is_str(plan_for(&(struct spec_intel_rdt){.clos_id = "/"}).group, ".", "closID '/' is the root group");
    static const char *const bad[] = {"", ".", "..", "a/b", "info", "mon_groups"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        is_int(intelrdt_plan(&arena, &(struct spec_intel_rdt){.clos_id = bad[i]}, "box", &plan, &err),
               -EINVAL, "closID '%s' is refused", bad[i]);
}

static void test_existing(void)
{
    struct error err = {0};
    struct intelrdt_made made;
    make_group("gold", "    L3:0=00f;1=7ff\\n    MB:0= 20;1=100\\n");
    struct intelrdt_plan plan =
        plan_for(&(struct spec_intel_rdt){.clos_id = "gold", .enable_monitoring = true});
    shell("mkdir gold/mon_groups/box && touch gold/mon_groups/box/tasks");
    is_int(intelrdt_create(&plan, root, 42, &made, &err), 0, "a process joins a group that exists");
    is_str(content("gold/tasks"), "42", "… by its pid");
    is_str(content("gold/mon_groups/box/tasks"), "42", "… and the monitoring group");
    ok(!made.group, "… which is not ours to remove");
    plan = plan_for(
        &(struct spec_intel_rdt){.clos_id = "gold", .l3_cache_schema = "L3:0=f", .mem_bw_schema = "MB:0=20"});
    is_int(intelrdt_create(&plan, root, 43, &made, &err), 0, "the same schema in other spelling is the same");
    plan = plan_for(&(struct spec_intel_rdt){.clos_id = "gold", .l3_cache_schema = "L3:0=ff"});
    is_int(intelrdt_create(&plan, root, 44, &made, &err), -EEXIST, "another schema is an error");
    is_str(err.text, "linux.intelRdt.closID: 'gold' exists with another schema than 'L3:0=ff'",
           "… that says so");
    plan = plan_for(&(struct spec_intel_rdt){.clos_id = "silver"});
    is_int(intelrdt_create(&plan, root, 44, &made, &err), -ENOENT,
           "a closID without schema that does not exist is an error");
    is_str(content("gold/tasks"), "43", "and nothing was moved");
}

static void test_update(void)
{
    struct error err = {0};
    make_group("bronze", "L3:0=f\\n");
    struct intelrdt_plan plan =
        plan_for(&(struct spec_intel_rdt){.l3_cache_schema = "L3:0=3", .mem_bw_schema = "MB:0=50"});
    is_int(intelrdt_update("bronze", &plan, root, &err), 0, "update of a group that exists");
    is_str(content("bronze/schemata"), "L3:0=3\nMB:0=50", "… writes all lines at once");
    is_int(intelrdt_update("missing", &plan, root, &err), -ENOENT, "a group that is gone is an error");
}

static void test_new(void)
{
    struct error err = {0};
    struct intelrdt_made made;
    struct intelrdt_plan plan = plan_for(&(struct spec_intel_rdt){.l3_cache_schema = "L3:0=f"});
    /* Without resctrl a new directory has no files, so the first write fails. */
    is_int(intelrdt_create(&plan, root, 42, &made, &err), -ENOENT, "a step that fails");
    is_int(faccessat(root, "box", F_OK, 0), -1, "… is undone");
    shell("mkdir box");
    is_int(intelrdt_destroy("box", NULL, &(struct intelrdt_made){.group = true}, root, &err), 0,
           "a group is removed");
    is_int(faccessat(root, "box", F_OK, 0), -1, "… from the tree");
    is_int(intelrdt_destroy("box", NULL, &(struct intelrdt_made){.group = true}, root, &err), 0,
           "and a missing one is no error");
}

int main(void)
{
    char directory[] = "/tmp/test_intelrdt.XXXXXX", command[64];
    if (mkdtemp(directory) == NULL || chdir(directory) < 0)
        bail_out("%s: %s", directory, strerror(errno));
    root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    test_plan();
    test_existing();
    test_update();
    test_new();
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    shell(command);
    arena_free(&arena);
    return done_testing();
}
