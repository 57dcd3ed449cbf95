/* checkpoint and restore: the options that engines pass, which are those of crun and runc. Podman infers
 * support from a `checkpoint --help` that succeeds. It infers support of pods from a `restore
 * --lsm-mount-context` that asks for an argument. So that error must not have the words of crun and runc,
 * "requires an argument" and "needs an argument". */
#include <limits.h>
#include <stddef.h>

#include "cli/commands.h"
#include "container/options.h"
#include "prewarm/commands.h"

/* Where crun and runc look if they are not told. */
#define IMAGE_PATH "checkpoint"

/* Of what these name, a container has nothing when it can be saved. */
#define HARMLESS_OPTIONS                                                                                     \
    {"tcp-established", 0, OPTION_IGNORED, 0, NULL, "ignored: no connection is saved", NULL},                \
        {"ext-unix-sk", 0, OPTION_IGNORED, 0, NULL, "ignored: no socket is saved", NULL},                    \
        {"shell-job", 0, OPTION_IGNORED, 0, NULL, "ignored: the streams are those of the new container",     \
         NULL},                                                                                              \
    {                                                                                                        \
        "file-locks", 0, OPTION_IGNORED, 0, NULL, "ignored: no locked file is saved", NULL                   \
    }

struct checkpoint_values {
    struct checkpoint_options checkpoint;
    const char *manage_cgroups;
};

#define SAVE(field) offsetof(struct checkpoint_values, field)
static const struct option checkpoint_option_table[] = {
    {"image-path", 0, OPTION_STRING, SAVE(checkpoint.image_path), "DIR",
     "directory for the checkpoint (default: " IMAGE_PATH ")", NULL},
    {"leave-running", 'R', OPTION_FLAG, SAVE(checkpoint.leave_running), NULL,
     "let the container go on when it is saved", NULL},
    {"work-path", 0, OPTION_STRING, SAVE(checkpoint.work_path), "DIR",
     "directory for the file of statistics (default: none)", NULL},
    {"manage-cgroups-mode", 0, OPTION_STRING, SAVE(manage_cgroups), "MODE",
     "ignored: the new container has a cgroup as configured", NULL},
    HARMLESS_OPTIONS,
    {0},
};

static int run_checkpoint(struct invocation *invocation, void *values, struct error *err)
{
    struct checkpoint_values *chosen = values;
    chosen->checkpoint.id = invocation->args[0];
    if (chosen->checkpoint.image_path == NULL)
        chosen->checkpoint.image_path = IMAGE_PATH;
    return prewarm_checkpoint(invocation->runtime, &chosen->checkpoint, err);
}

struct restore_values {
    struct create_options create;
    const char *image_path, *work_path, *manage_cgroups;
};

#define RESTORE(field) offsetof(struct restore_values, field)
static const struct option restore_option_table[] = {
    {"image-path", 0, OPTION_STRING, RESTORE(image_path), "DIR",
     "directory of the checkpoint (default: " IMAGE_PATH ")", NULL},
    {"bundle", 'b', OPTION_STRING, RESTORE(create.bundle), "DIR",
     "bundle of the container (default: the working directory)", NULL},
    {"detach", 'd', OPTION_FLAG, RESTORE(create.detach), NULL, "return when the program has started", NULL},
    {"pid-file", 0, OPTION_STRING, RESTORE(create.pid_file), "FILE", "write the process id to this file",
     NULL},
    {"console-socket", 0, OPTION_STRING, RESTORE(create.console_socket), "SOCKET",
     "send the terminal's descriptor to this AF_UNIX socket", NULL},
    {"no-subreaper", 0, OPTION_FLAG, RESTORE(create.no_subreaper), NULL,
     "leave orphaned processes to the system's init", NULL},
    {"no-pivot", 0, OPTION_FLAG, RESTORE(create.no_pivot), NULL,
     "move the mount of the root instead of pivot_root, for an initramfs", NULL},
    {"work-path", 0, OPTION_STRING, RESTORE(work_path), "DIR",
     "directory for the file of statistics (default: none)", NULL},
    {"manage-cgroups-mode", 0, OPTION_STRING, RESTORE(manage_cgroups), "MODE",
     "ignored: the container has a cgroup as configured", NULL},
    HARMLESS_OPTIONS,
    {0},
};

static int run_restore(struct invocation *invocation, void *values, struct error *err)
{
    struct restore_values *chosen = values;
    struct create_options *create = &chosen->create;
    create->id = invocation->args[0];
    if (create->bundle == NULL)
        create->bundle = ".";
    create->config = "config.json";
    return prewarm_restore(invocation->runtime, create,
                           chosen->image_path != NULL ? chosen->image_path : IMAGE_PATH, chosen->work_path,
                           &invocation->exit_code, err);
}

const struct command command_checkpoint = {
    .name = "checkpoint",
    .arguments = "ID",
    .summary = "save a Python program that waits in __pysbx_park__, and stop its container",
    .options = checkpoint_option_table,
    .values_size = sizeof(struct checkpoint_values),
    .min_args = 1,
    .max_args = 1,
    .run = run_checkpoint,
};

const struct command command_restore = {
    .name = "restore",
    .arguments = "ID",
    .summary = "create a container that continues from a checkpoint",
    .options = restore_option_table,
    .values_size = sizeof(struct restore_values),
    .min_args = 1,
    .max_args = 1,
    .run = run_restore,
};
