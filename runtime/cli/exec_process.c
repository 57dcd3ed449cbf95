/* See exec_process.h. */
#include "cli/exec_process.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "sandbox/caps.h"

int exec_process_parse_user(const char *text, uint32_t *uid, uint32_t *gid, struct error *err)
{
    char user[sizeof("4294967294")];
    const char *colon = strchrnul(text, ':');
    size_t length = (size_t)(colon - text);
    uint32_t parsed_uid, parsed_gid = *gid;
    if (length >= sizeof(user))
        goto invalid;
    memcpy(user, text, length);
    user[length] = '\0';
    if (str_to_id(user, &parsed_uid) < 0 || (*colon == ':' && str_to_id(colon + 1, &parsed_gid) < 0))
        goto invalid;
    *uid = parsed_uid;
    *gid = parsed_gid;
    return 0;

invalid:
    return error_text(err, -EINVAL, "invalid user '%.64s': expected UID or UID:GID as numbers", text);
}

static void exec_process_append(struct arena *a, struct str_list *list, const struct str_list *more)
{
    const char **items = ARENA_ARRAY(a, list->count + more->count, const char *);
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof(*items));
    if (more->count > 0)
        memcpy(items + list->count, more->items, more->count * sizeof(*items));
    *list = (struct str_list){items, list->count + more->count};
}

/* Set a variable, and replace it if it exists. */
static void set_env(struct arena *a, struct spec_process *process, const char *assignment)
{
    size_t length = strcspn(assignment, "=") + 1;
    for (size_t i = 0; i < process->env.count; i++)
        if (strncmp(process->env.items[i], assignment, length) == 0) {
            process->env.items[i] = assignment;
            return;
        }
    exec_process_append(a, &process->env, &(struct str_list){&assignment, 1});
}

static int apply_env(struct arena *a, const struct str_list *env, struct spec_process *process,
                     struct error *err)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *equals = strchr(env->items[i], '=');
        /* Without its text, which may be a secret that lost its name. */
        if (equals == NULL || equals == env->items[i])
            return error_text(err, -EINVAL, "invalid value of --env, number %zu: expected NAME=VALUE", i + 1);
        set_env(a, process, env->items[i]);
    }
    return 0;
}

static bool has_capability(const struct str_list *set, const char *name)
{
    const int cap = caps_from_name(name);
    for (size_t i = 0; i < set->count; i++)
        if (cap >= 0 && caps_from_name(set->items[i]) == cap)
            return true;
    return false;
}

static void apply_caps(struct arena *a, const struct str_list *caps, struct spec_process *process)
{
    if (caps->count == 0)
        return;
    if (process->capabilities == NULL)
        process->capabilities = ARENA_NEW(a, struct spec_capabilities);
    exec_process_append(a, &process->capabilities->bounding, caps);
    exec_process_append(a, &process->capabilities->effective, caps);
    exec_process_append(a, &process->capabilities->permitted, caps);
    /* The kernel wants ambient capabilities to be inheritable. --cap never adds to that set, from which
     * programs with file capabilities would take them (CVE-2022-29162). */
    for (size_t i = 0; i < caps->count; i++)
        if (has_capability(&process->capabilities->inheritable, caps->items[i]))
            exec_process_append(a, &process->capabilities->ambient, &(struct str_list){&caps->items[i], 1});
}

static int add_gid(struct arena *a, const char *text, struct spec_user *user, struct error *err)
{
    uint32_t gid;
    if (str_to_id(text, &gid) < 0)
        return error_text(err, -EINVAL, "invalid group '%.64s': expected a number", text);
    size_t count = user->additional_gids.count;
    uint32_t *gids = ARENA_ARRAY(a, count + 1, uint32_t);
    if (count > 0)
        memcpy(gids, user->additional_gids.items, count * sizeof(*gids));
    gids[count] = gid;
    user->additional_gids.items = gids;
    user->additional_gids.count = count + 1;
    return 0;
}

static int apply_gids(struct arena *a, const struct str_list *lists, struct spec_user *user,
                      struct error *err)
{
    for (size_t i = 0; i < lists->count; i++) {
        char *rest = arena_strdup(a, lists->items[i]);
        for (const char *gid; (gid = strsep(&rest, ",")) != NULL;) {
            int ret = add_gid(a, gid, user, err);
            if (ret < 0)
                return ret;
        }
    }
    return 0;
}

int exec_process_apply(struct arena *a, const struct exec_process_options *options,
                       struct spec_process *process, struct error *err)
{
    struct spec_user *user = &process->user;
    int ret = options->user != NULL ? exec_process_parse_user(options->user, &user->uid, &user->gid, err) : 0;
    if (ret < 0)
        return ret;
    ret = apply_gids(a, &options->additional_gids, user, err);
    if (ret < 0)
        return ret;
    ret = apply_env(a, &options->env, process, err);
    if (ret < 0)
        return ret;
    apply_caps(a, &options->caps, process);
    process->terminal = options->tty;
    process->no_new_privileges = process->no_new_privileges || options->no_new_privs;
    if (options->cwd != NULL)
        process->cwd = options->cwd;
    if (options->process_label != NULL)
        process->selinux_label = options->process_label;
    if (options->apparmor != NULL)
        process->apparmor_profile = options->apparmor;
    return 0;
}
