/* Make the ruleset in the kernel and enforce it; describe it for `plan`. */
#include "sandbox/lsm/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/path.h"
#include "sandbox/lsm/landlock_abi.h"

/* Open the path of a rule. If the program may change the path, a link on it is refused. A process in the
 * container could have made the link, and the next exec would open the rest of the container to its program.
 */
static int open_path(int root, const struct landlock_path *rule)
{
    return rule->follow ? path_open_in_root(root, rule->path, O_PATH, 0)
                        : path_open_in_root_nosymlink(root, rule->path, O_PATH, 0);
}

static int landlock_add_path(const struct landlock_plan *plan, int root, const struct landlock_path *rule,
                             struct error *err)
{
    struct stat st;
    cleanup_fd int fd = open_path(root, rule);
    if (rule->optional && (fd == -ENOENT || fd == -ENOTDIR))
        return 0;
    if (fd == -ELOOP && !rule->follow)
        return error_text(
            err, fd,
            "landlock: path '%s' leads through a symbolic link, which only a path for reading may do: "
            "name the target itself",
            rule->path);
    if (fd < 0)
        return error_set(err, fd, "landlock: path '%s' in the container", rule->path);
    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "landlock: stat '%s'", rule->path);
    uint64_t access = rule->access & plan->enforced.of[LANDLOCK_FS];
    if (!S_ISDIR(st.st_mode))
        access &= FS_FILE_RIGHTS;
    struct landlock_path_rule beneath = {.allowed_access = access, .parent_fd = fd};
    if (access != 0 && landlock_add_rule(plan->ruleset, RULE_PATH_BENEATH, &beneath) < 0)
        return error_set(err, -errno, "landlock: rule for '%s'", rule->path);
    return 0;
}

static int add_port(const struct landlock_plan *plan, const struct landlock_port *rule, struct error *err)
{
    struct landlock_port_rule port = {.allowed_access = rule->access & plan->enforced.of[LANDLOCK_NET],
                                      .port = rule->port};
    if (port.allowed_access != 0 && landlock_add_rule(plan->ruleset, RULE_NET_PORT, &port) < 0)
        return error_set(err, -errno, "landlock: rule for port %u", rule->port);
    return 0;
}

int landlock_prepare(struct landlock_plan *plan, struct error *err)
{
    if (!landlock_active(plan))
        return 0;
    struct landlock_ruleset ruleset = {
        .handled_access_fs = plan->enforced.of[LANDLOCK_FS],
        .handled_access_net = plan->enforced.of[LANDLOCK_NET],
        .scoped = plan->enforced.of[LANDLOCK_SCOPE],
    };
    plan->ruleset = landlock_create_ruleset(&ruleset);
    if (plan->ruleset < 0)
        return error_set(err, -errno, "landlock: make the ruleset");
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_set(err, -errno, "landlock: open the container's root");
    for (size_t i = 0; i < plan->path_count; i++) {
        int ret = landlock_add_path(plan, root, &plan->paths[i], err);
        if (ret < 0)
            return ret;
    }
    for (size_t i = 0; i < plan->port_count; i++) {
        int ret = add_port(plan, &plan->ports[i], err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

int landlock_apply(struct landlock_plan *plan, struct error *err)
{
    if (!landlock_active(plan))
        return 0;
    if (landlock_restrict_self(plan->ruleset, (unsigned)plan->enforced.of[LANDLOCK_FLAG]) < 0) {
        if (errno == E2BIG)
            return error_text(
                err, -E2BIG,
                "landlock: restrict the process: the runtime itself is under the 16 rulesets that "
                "the kernel can stack");
        return error_set(err, -errno, "landlock: restrict the process");
    }
    fd_close(&plan->ruleset);
    return 0;
}

static void describe_rights(const char *key, const struct landlock_rights *rights, struct json_out *out)
{
    json_out_key(out, key);
    json_out_array_open(out);
    for (const struct landlock_right *right = landlock_rights; right->name != NULL; right++)
        if (rights->of[right->kind] & right->bit)
            json_out_string(out, right->name);
    json_out_array_close(out);
}

static void describe_path(const struct landlock_plan *plan, const struct landlock_path *rule,
                          struct json_out *out)
{
    struct landlock_rights allowed = {.of[LANDLOCK_FS] = rule->access & plan->enforced.of[LANDLOCK_FS]};
    json_out_map_open(out);
    json_out_pair_string(out, "path", rule->path);
    json_out_pair_bool(out, "optional", rule->optional);
    json_out_pair_bool(out, "followLinks", rule->follow);
    describe_rights("allowed", &allowed, out);
    json_out_map_close(out);
}

static void describe_port(const struct landlock_plan *plan, const struct landlock_port *rule,
                          struct json_out *out)
{
    struct landlock_rights allowed = {.of[LANDLOCK_NET] = rule->access & plan->enforced.of[LANDLOCK_NET]};
    json_out_map_open(out);
    json_out_pair_u64(out, "port", rule->port);
    describe_rights("allowed", &allowed, out);
    json_out_map_close(out);
}

void landlock_describe(const struct landlock_plan *plan, struct json_out *out)
{
    if (!plan->wanted) {
        json_out_null(out);
        return;
    }
    json_out_map_open(out);
    json_out_pair_i64(out, "abi", plan->abi);
    json_out_pair_string(out, "enforcement", plan->required ? "required" : "best-effort");
    struct landlock_rights restricted = plan->enforced;
    restricted.of[LANDLOCK_FLAG] = 0;
    describe_rights("restricted", &restricted, out);
    describe_rights("dropped", &plan->dropped, out);
    json_out_pair_bool(out, "log", (plan->enforced.of[LANDLOCK_FLAG] & FLAG_LOG_NEW_EXEC_ON) != 0);
    json_out_key(out, "paths");
    json_out_array_open(out);
    for (size_t i = 0; i < plan->path_count; i++)
        describe_path(plan, &plan->paths[i], out);
    json_out_array_close(out);
    json_out_key(out, "ports");
    json_out_array_open(out);
    for (size_t i = 0; i < plan->port_count; i++)
        describe_port(plan, &plan->ports[i], out);
    json_out_array_close(out);
    json_out_map_close(out);
}
