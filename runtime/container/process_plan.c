/* Planning the process object: what the child will do, and how `plan` shows it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "base/str.h"
#include "container/execve.h"
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

/* Copy the environment, with a free entry for HOME if it is missing, and with LISTEN_FDS for socket
 * activation. An empty HOME is a missing one, as for runc: `podman exec --user` passes it for a user
 * without a name. */
static void plan_environment(struct arena *a, const struct spec_process *process, unsigned listen_fds,
                             struct process_plan *out)
{
    const struct str_list *env = &process->env;
    char **envp = ARENA_ARRAY(a, env->count + 4, char *);
    size_t count = 0;
    out->home_missing = true;
    for (size_t i = 0; i < env->count; i++) {
        if (str_eq(env->items[i], "HOME="))
            continue;
        out->home_missing = out->home_missing && str_after(env->items[i], "HOME=") == NULL;
        envp[count++] = (char *)(uintptr_t)env->items[i];
    }
    if (listen_fds > 0 && env_value(env, "LISTEN_FDS") == NULL) {
        envp[count++] = arena_printf(a, "LISTEN_FDS=%u", listen_fds);
        if (env_value(env, "LISTEN_PID") == NULL)
            envp[count++] = arena_strdup(a, "LISTEN_PID=1");
    }
    out->home_slot = count;
    out->envp = envp;
    const char *path = env_value(env, "PATH");
    out->search_path = path != NULL ? path : DEFAULT_PATH;
}

static int plan_linux(struct arena *a, const struct spec_linux *linux_, struct process_plan *out,
                      struct error *err)
{
    int ret = mempolicy_plan(a, linux_->memory_policy, &out->mempolicy, err);
    return ret < 0 ? ret : personality_plan(linux_->personality, &out->personality, err);
}

static int plan_labels(struct arena *a, const struct spec_process *process, struct process_plan *out,
                       struct error *err)
{
    int ret = selinux_plan(process->selinux_label, &out->selinux, err);
    return ret < 0 ? ret : apparmor_plan(a, process->apparmor_profile, &out->apparmor, err);
}

static int plan_scheduling(struct arena *a, const struct spec_process *process, bool exec,
                           struct process_plan *out, struct error *err)
{
    int ret = sched_plan(process->scheduler, &out->sched, err);
    if (ret < 0)
        return ret;
    ret = ioprio_plan(process->io_priority, &out->ioprio, err);
    if (ret < 0 || !exec)
        return ret;
    return sched_affinity_plan(a, process->exec_cpu_affinity, &out->affinity, err);
}

static int plan_landlock(struct arena *a, const struct process_context *context, struct process_plan *out,
                         struct error *err)
{
    int abi = context->landlock != NULL ? landlock_abi() : 0;
    int ret = landlock_plan(a, context->landlock, abi, &out->landlock, err);
    if (ret < 0)
        return ret;
    if (!context->landlock_log)
        landlock_plan_silence(&out->landlock);
    if (context->landlock_allow != NULL)
        landlock_plan_allow(a, context->landlock_allow, &out->landlock);
    return 0;
}

int process_plan(struct arena *a, const struct spec_process *process, const struct process_context *context,
                 struct process_plan *out, struct error *err)
{
    *out = (struct process_plan){.process = process,
                                 .preserve_fds = context->preserve_fds,
                                 .keyring = context->keyring,
                                 .cwd = process->cwd,
                                 .terminal = TERMINAL_PLAN_NONE,
                                 .first = FIRST_PLAN_NONE,
                                 .launch = &launch_execve};
    char **argv = ARENA_ARRAY(a, process->args.count + 1, char *);
    for (size_t i = 0; i < process->args.count; i++)
        argv[i] = (char *)(uintptr_t)process->args.items[i];
    out->argv = argv;
    plan_environment(a, process, context->listen_fds, out);
    int ret = caps_plan(process, context->user_namespace, &out->caps, err);
    if (ret < 0)
        return ret;
    struct credentials_options options = {.keep_groups = context->keep_groups, .keep_caps = true};
    ret = credentials_plan(a, process, &options, &out->credentials, err);
    if (ret < 0)
        return ret;
    ret = rlimits_plan(a, &process->rlimits, &out->rlimits, err);
    if (ret < 0)
        return ret;
    ret = plan_labels(a, process, out, err);
    if (ret < 0)
        return ret;
    ret = plan_scheduling(a, process, context->exec, out, err);
    if (ret < 0)
        return ret;
    ret = context->linux_ != NULL ? plan_linux(a, context->linux_, out, err) : 0;
    if (ret < 0)
        return ret;
    ret = plan_landlock(a, context, out, err);
    if (ret < 0 || context->filter == NULL)
        return ret;
    return seccomp_plan(a, context->spec, context->filter, &out->seccomp, err);
}

/* Write names alone, because values can be secrets. */
static void describe_environment(const struct process_plan *plan, struct json_out *out)
{
    json_out_key(out, "env");
    json_out_array_open(out);
    for (size_t i = 0; plan->envp[i] != NULL; i++) {
        char name[256];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(plan->envp[i], "="), plan->envp[i]);
        json_out_string(out, name);
    }
    if (plan->home_missing)
        json_out_string(out, "HOME");
    json_out_array_close(out);
}

void process_describe(const struct process_plan *plan, struct json_out *out)
{
    json_out_map_open(out);
    json_out_key(out, "args");
    json_out_array_open(out);
    for (size_t i = 0; plan->argv[i] != NULL; i++)
        json_out_string(out, plan->argv[i]);
    json_out_array_close(out);
    describe_environment(plan, out);
    json_out_pair_string(out, "cwd", plan->cwd);
    credentials_describe(&plan->credentials, out);
    json_out_pair_bool(out, "terminal", plan->process->terminal);
    json_out_pair_string(out, "keyring", plan->keyring);
    if (plan->process->oom_score_adj.set)
        json_out_pair_i64(out, "oomScoreAdj", plan->process->oom_score_adj.value);
    if (plan->sched.set) {
        json_out_key(out, "scheduler");
        sched_describe(&plan->sched, out);
    }
    if (plan->ioprio.set) {
        json_out_key(out, "ioPriority");
        ioprio_describe(&plan->ioprio, out);
    }
    if (plan->mempolicy.set) {
        json_out_key(out, "memoryPolicy");
        mempolicy_describe(&plan->mempolicy, out);
    }
    if (plan->personality.set) {
        json_out_key(out, "personality");
        personality_describe(&plan->personality, out);
    }
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
