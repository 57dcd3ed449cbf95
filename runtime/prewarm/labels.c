/* Labels and warm starts: SELinux, AppArmor, Landlock. */
#include "prewarm/labels.h"

#include <errno.h>
#include <fcntl.h>
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

const char *labels_key(struct arena *a, const struct start *start)
{
    const struct process_plan *process = start->process;
    const char *landlock = spec_annotation(start->spec, LANDLOCK_ANNOTATION);
    const char *key = "";
    if (process->selinux.label != NULL) {
        const char *type = selinux_label_type(a, process->selinux.label);
        key =
            arena_printf(a, "SELinux %s %s ", type != NULL ? type : process->selinux.label, selinux_state(a));
    }
    if (process->apparmor.profile != NULL)
        key = arena_printf(a, "%sAppArmor %s ", key, process->apparmor.profile);
    if (landlock != NULL)
        key = arena_printf(a, "%sLandlock %s ", key, landlock);
    return key;
}

/* Return the label of a file of the container, as the host sees it. */
static const char *label_of(struct arena *a, const struct start *start, const char *path)
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
    const char *target = label_of(a, start, program);
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
    const char *label = label_of(a, start, program);
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
        if (record[0] != 'f' || !is_in_volume(start->spec, path))
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
