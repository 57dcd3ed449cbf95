/* Labels and warm starts: SELinux, AppArmor, Landlock. */
#include "prewarm/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "container/process.h"
#include "prewarm/builder.h"
#include "prewarm/start.h"
#include "sandbox/lsm/landlock_abi.h"
#include "sandbox/lsm/selinux_access.h"
#include "warm/root_view.h"

const char *labels_obstacle(struct arena *a, const struct start *start)
{
    const struct process_plan *process = start->process;
    const char *reason = apparmor_obstacle(&process->apparmor);
    if (reason == NULL && process->selinux.label != NULL)
        reason = selinux_obstacle(a, process->selinux.label);
    return reason;
}

/* Rights that only matter to a process that writes. In a file system without devices, IOCTL_DEV is one. */
#define WRITING                                                                                              \
    (FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_CHAR | FS_MAKE_DIR | FS_MAKE_REG |             \
     FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_BLOCK | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV)

/* Return whether imports cannot see this rule. They run with read-only mounts (builder_spec.c), where the
 * kernel refuses to write before it asks Landlock. So a rule for a mount that allows writing, where the rule
 * for "/" allows everything else, makes no difference. */
static bool is_unseen(struct arena *a, const struct start *start, const struct landlock_path *rule)
{
    const struct landlock_plan *landlock = &start->process->landlock;
    uint64_t everywhere = 0;
    for (size_t i = 0; i < landlock->path_count; i++)
        if (str_eq(landlock->paths[i].path, "/"))
            everywhere |= landlock->paths[i].access;
    if ((rule->access & ~everywhere & ~(uint64_t)WRITING) != 0)
        return false;
    for (size_t i = 0; i < start->spec->mounts.count; i++) {
        const struct spec_mount *mount = &start->spec->mounts.items[i];
        if (spec_mount_is_bind(mount) && spec_mount_has_option(mount, "nodev") &&
            str_eq(path_clean(a, mount->destination), path_clean(a, rule->path)))
            return true;
    }
    return false;
}

/* Return the rules that imports can see. */
static const char *landlock_text(struct arena *a, const struct start *start)
{
    const struct landlock_plan *landlock = &start->process->landlock;
    const char *text = arena_printf(a, "Landlock %d", landlock->required);
    for (size_t i = 0; i < LANDLOCK_KINDS; i++)
        text = arena_printf(a, "%s %" PRIx64, text, landlock->enforced.of[i]);
    for (size_t i = 0; i < landlock->path_count; i++) {
        const struct landlock_path *rule = &landlock->paths[i];
        if (!is_unseen(a, start, rule))
            text = arena_printf(a, "%s %" PRIx64 "%s%s %s", text, rule->access, rule->optional ? " -" : "",
                                rule->follow ? " ->" : "", rule->path);
    }
    for (size_t i = 0; i < landlock->port_count; i++)
        text = arena_printf(a, "%s %" PRIx64 " port %u", text, landlock->ports[i].access,
                            landlock->ports[i].port);
    return text;
}

const char *labels_key(struct arena *a, const struct start *start)
{
    const struct process_plan *process = start->process;
    const char *key = "";
    if (process->selinux.label != NULL) {
        const char *type = selinux_label_type(a, process->selinux.label);
        key =
            arena_printf(a, "SELinux %s %s ", type != NULL ? type : process->selinux.label, selinux_state(a));
    }
    if (process->apparmor.profile != NULL)
        key = arena_printf(a, "%sAppArmor %s ", key, process->apparmor.profile);
    if (process->landlock.wanted)
        key = arena_printf(a, "%s%s ", key, landlock_text(a, start));
    return key;
}

/* Return the label of a file of the container, as the host sees it. */
static const char *labels_find(struct arena *a, const struct start *start, const char *path)
{
    struct root_view view;
    cleanup_fd int root = open(start->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return NULL;
    root_view_plan(a, start->spec, root, start->bundle, &view);
    cleanup_fd int fd = root_view_open(&view, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd >= 0 ? selinux_file_label(a, fd) : NULL;
}

const char *labels_refusal(struct arena *a, const struct start *start, const char *program, int file)
{
    const char *label = start->process->selinux.label;
    if (label == NULL)
        return NULL;
    const char *target = labels_find(a, start, program);
    if (target == NULL || !selinux_allows(label, target, "file", "entrypoint read map execute"))
        return "the SELinux policy does not let the label begin with this program";
    target = selinux_file_label(a, file);
    /* Changing the protection of memory that is mapped from a file requires the permission to read it. */
    if (target == NULL || !selinux_allows(label, target, "file", "read"))
        return "the SELinux policy does not let the label read memory of a snapshot (see "
               "config/selinux/pysbx.cil)";
    if (!start->spec->process->terminal && !selinux_allows_streams(a, label))
        return "the SELinux policy takes a standard stream away when a program is executed";
    return NULL;
}

int labels_agent(struct arena *a, const struct start *start, const char *program, const char *path,
                 struct error *err)
{
    if (start->process->selinux.label == NULL)
        return 0;
    const char *label = labels_find(a, start, program);
    label = label != NULL ? selinux_label_plain(a, label) : NULL;
    if (label == NULL)
        return error_text(err, -ENODATA, "the interpreter '%s' has no SELinux label", program);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set(err, -errno, "open '%s'", path);
    if (str_eq(selinux_file_label(a, fd), label))
        return 0;
    if (fsetxattr(fd, "security.selinux", label, strlen(label) + 1, 0) < 0)
        return error_set(err, -errno, "give '%s' the label '%s'", path, label);
    return 0;
}

static bool is_in_volume(const struct spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->mounts.count; i++) {
        const char *rest = str_after(path, spec->mounts.items[i].destination);
        if (rest != NULL && (*rest == '\0' || *rest == '/') && spec->mounts.items[i].source != NULL)
            return true;
    }
    return false;
}

int labels_check(struct arena *a, const struct start *start, int root, const struct builder_report *report,
                 struct error *err)
{
    if (start->process->selinux.label == NULL)
        return 0;
    const char *end = report->data + report->size;
    for (const char *record = report->data; record < end; record += strlen(record) + 1) {
        const char *path = record + 1;
        if ((record[0] != 'f' && record[0] != 's') || !is_in_volume(start->spec, path))
            continue;
        cleanup_fd int fd = path_open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        const char *label = fd >= 0 ? selinux_file_label(a, fd) : NULL;
        if (fd != -ENOENT && (label == NULL || selinux_label_has_categories(label)))
            return error_text(err, -EACCES,
                              "'%s' is labelled for one container only, a snapshot with it would be for all",
                              path);
    }
    return 0;
}
