/* The process object planned: what the child will do, and how `plan` shows it. */
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>

#include "base/json_out.h"
#include "base/str.h"
#include "container/process.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char *env_value(const struct str_list *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], name, len) == 0 && env->items[i][len] == '=')
            return env->items[i] + len + 1;
    return NULL;
}

/* The environment with a free place for HOME when it is not there, and LISTEN_FDS for socket activation. */
static void plan_environment(struct arena *a, const struct spec_process *process, unsigned listen_fds,
                             struct process_plan *out)
{
    const struct str_list *env = &process->env;
    char **envp = ARENA_ARRAY(a, env->count + 4, char *);
    size_t count = 0;
    for (; count < env->count; count++)
        envp[count] = (char *)(uintptr_t)env->items[count];
    if (listen_fds > 0 && env_value(env, "LISTEN_FDS") == NULL) {
        envp[count++] = arena_printf(a, "LISTEN_FDS=%u", listen_fds);
        if (env_value(env, "LISTEN_PID") == NULL)
            envp[count++] = arena_strdup(a, "LISTEN_PID=1");
    }
    out->home_missing = env_value(env, "HOME") == NULL;
    out->home_slot = count;
    out->envp = envp;
    const char *path = env_value(env, "PATH");
    out->search_path = path != NULL ? path : DEFAULT_PATH;
}

static int plan_linux(struct arena *a, const struct spec *spec, struct process_plan *out, struct error *err)
{
    int ret = mempolicy_plan(a, spec->linux_->memory_policy, &out->mempolicy, err);
    return ret < 0 ? ret : personality_plan(spec->linux_->personality, &out->personality, err);
}

int process_plan(struct arena *a, const struct spec_process *process, const struct process_context *context,
                 struct process_plan *out, struct error *err)
{
    *out = (struct process_plan){.process = process,
                                 .preserve_fds = context->preserve_fds,
                                 .keyring = context->keyring,
                                 .cwd = process->cwd,
                                 .terminal = TERMINAL_PLAN_NONE};
    char **argv = ARENA_ARRAY(a, process->args.count + 1, char *);
    for (size_t i = 0; i < process->args.count; i++)
        argv[i] = (char *)(uintptr_t)process->args.items[i];
    out->argv = argv;
    plan_environment(a, process, context->listen_fds, out);
    int ret = caps_plan(process, context->user_namespace, &out->caps, err);
    struct identity_options options = {.keep_groups = context->keep_groups, .keep_caps = true};
    if (ret == 0)
        ret = identity_plan(a, process, &options, &out->identity, err);
    if (ret == 0)
        ret = rlimits_plan(a, &process->rlimits, &out->rlimits, err);
    if (ret == 0)
        ret = selinux_plan(process->selinux_label, &out->selinux, err);
    if (ret == 0)
        ret = apparmor_plan(a, process->apparmor_profile, &out->apparmor, err);
    if (ret == 0)
        ret = sched_plan(process->scheduler, &out->sched, err);
    if (ret == 0)
        ret = ioprio_plan(process->io_priority, &out->ioprio, err);
    if (ret == 0 && context->exec)
        ret = sched_affinity_plan(a, process->exec_cpu_affinity, &out->affinity, err);
    if (ret == 0 && context->spec != NULL)
        ret = plan_linux(a, context->spec, out, err);
    if (ret == 0)
        ret = landlock_plan(a, context->landlock, context->landlock != NULL ? landlock_abi() : 0,
                            &out->landlock, err);
    if (ret == 0 && !context->landlock_log)
        landlock_plan_silence(&out->landlock);
    if (ret == 0 && context->landlock_allow != NULL)
        landlock_plan_allow(a, context->landlock_allow, &out->landlock);
    return ret;
}

bool process_may_trace(const struct process_plan *plan)
{
    uint64_t held = plan->caps.bounding | plan->caps.permitted;
    return (held >> CAP_SYS_PTRACE & 1) != 0 && (held >> CAP_SYS_ADMIN & 1) == 0;
}

void process_describe(const struct process_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_key(out, "args");
    json_out_array_open(out);
    for (size_t i = 0; plan->argv[i] != NULL; i++)
        json_out_string(out, plan->argv[i]);
    json_out_array_close(out);
    json_out_pair_string(out, "cwd", plan->cwd);
    json_out_pair_u64(out, "uid", plan->identity.uid);
    json_out_pair_u64(out, "gid", plan->identity.gid);
    json_out_pair_bool(out, "terminal", plan->terminal.wanted);
    json_out_pair_bool(out, "noNewPrivileges", plan->identity.no_new_privs);
    json_out_key(out, "capabilities");
    caps_describe(&plan->caps, out);
    json_out_key(out, "rlimits");
    rlimits_describe(&plan->rlimits, out);
    json_out_key(out, "seccomp");
    seccomp_describe(&plan->seccomp, out);
    json_out_key(out, "selinuxLabel");
    selinux_describe(&plan->selinux, out);
    json_out_key(out, "apparmorProfile");
    apparmor_describe(&plan->apparmor, out);
    json_out_key(out, "landlock");
    landlock_describe(&plan->landlock, out);
    json_out_map_close(out);
}
