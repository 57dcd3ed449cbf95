/* Create file systems by fsopen, fsconfig and fsmount, or by mount(2) where these do not suffice. */
#include "sandbox/mount/filesystem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/text.h"

/* fsconfig(2) copies keys and values up to this size, with the NUL. */
#define FSCONFIG_TEXT_MAX 256

struct flag_name {
    unsigned long flag;
    const char *name;
};
/* Superblock flags as fsconfig(2) names them. MS_SILENT has no such name and is not needed here. */
static const struct flag_name super_names[] = {
    {MS_RDONLY, "ro"},     {MS_SYNCHRONOUS, "sync"},  {MS_DIRSYNC, "dirsync"},
    {MS_MANDLOCK, "mand"}, {MS_LAZYTIME, "lazytime"},
};
#define FOR_EACH(item, table) for (size_t item = 0; item < sizeof(table) / sizeof((table)[0]); item++)

static bool needs_legacy(const struct filesystem *fs)
{
    if ((fs->super & MS_I_VERSION) != 0 || strchr(fs->type, '.') != NULL)
        return true;
    for (size_t i = 0; i < fs->data_count; i++)
        if (fs->data[i].value != NULL && strlen(fs->data[i].value) >= FSCONFIG_TEXT_MAX)
            return true;
    return false;
}

const char *filesystem_join_data(struct arena *a, const struct filesystem *fs)
{
    struct text list = {.arena = a};
    for (size_t i = 0; i < fs->data_count; i++) {
        text_separate(&list, ",");
        text_add(&list, "%s", fs->data[i].text);
    }
    /* Quote the label, because a list of categories contains commas. */
    if (fs->label != NULL) {
        text_separate(&list, ",");
        text_add(&list, "%s=\"%s\"", fs->label_key, fs->label);
    }
    return text_string(&list);
}

void filesystem_plan(struct arena *a, struct filesystem *fs)
{
    if (needs_legacy(fs))
        fs->legacy_data = filesystem_join_data(a, fs);
}

/* Report a failure with the kernel's message. It is read from the file system context, one message per read:
 * "e text", "w text", "i text". */
static int filesystem_fail(int context, const char *type, const char *doing, const char *what, int code,
                           struct error *err)
{
    char message[256];
    ssize_t n;
    while ((n = read(context, message, sizeof(message) - 1)) > 0) {
        message[n] = '\0';
        message[strcspn(message, "\n")] = '\0';
        if (message[0] == 'e' && message[1] == ' ')
            return error_set(err, code, "file system '%s': %s '%s': %s: kernel says '%s'", type, doing, what,
                             error_reason(code), message + 2);
    }
    if (code == -EINVAL)
        return error_set(err, code, "file system '%s': %s '%s' is refused by the kernel", type, doing, what);
    return error_set(err, code, "file system '%s': %s '%s'", type, doing, what);
}

static int filesystem_set_string(int context, const struct filesystem *fs, const char *key, const char *value,
                                 struct error *err)
{
    if (sys_fsconfig(context, FSCONFIG_SET_STRING, key, value, 0) == 0)
        return 0;
    return filesystem_fail(context, fs->type, "option", key, -errno, err);
}

/* gid=5 is "tty" only by convention, and a user namespace with one id does not have it. */
static bool is_terminal_group(const struct filesystem *fs, const struct mount_data *data)
{
    return str_eq(fs->type, "devpts") && str_eq(data->key, "gid");
}

static int set_data(int context, const struct filesystem *fs, bool without_group, struct error *err)
{
    for (size_t i = 0; i < fs->data_count; i++) {
        const struct mount_data *data = &fs->data[i];
        if (without_group && is_terminal_group(fs, data))
            continue;
        if (sys_fsconfig(context, data->value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, data->key,
                         data->value, 0) == 0)
            continue;
        if (errno == EINVAL && is_terminal_group(fs, data))
            continue;
        return filesystem_fail(context, fs->type, "option", data->text, -errno, err);
    }
    return 0;
}

static int set_mode(int context, const struct filesystem *fs, int mode, struct error *err)
{
    char text[16];
    if (mode < 0)
        return 0;
    snprintf(text, sizeof(text), "%o", (unsigned)mode);
    return filesystem_set_string(context, fs, "mode", text, err);
}

static int filesystem_configure(int context, const struct filesystem *fs, int mode, bool without_group,
                                struct error *err)
{
    bool has_source = fs->source != NULL && fs->source[0] != '\0';
    int ret = has_source ? filesystem_set_string(context, fs, "source", fs->source, err) : 0;
    if (ret < 0)
        return ret;
    FOR_EACH (i, super_names) {
        if ((fs->super & super_names[i].flag) != 0 &&
            sys_fsconfig(context, FSCONFIG_SET_FLAG, super_names[i].name, NULL, 0) < 0)
            return filesystem_fail(context, fs->type, "option", super_names[i].name, -errno, err);
    }
    ret = set_mode(context, fs, mode, err);
    if (ret < 0)
        return ret;
    ret = set_data(context, fs, without_group, err);
    if (ret < 0 || fs->label == NULL)
        return ret;
    return filesystem_set_string(context, fs, fs->label_key, fs->label, err);
}

static bool has_terminal_group(const struct filesystem *fs)
{
    for (size_t i = 0; i < fs->data_count; i++)
        if (is_terminal_group(fs, &fs->data[i]))
            return true;
    return false;
}

static int create(const struct filesystem *fs, int mode, bool without_group, struct error *err)
{
    cleanup_fd int context = sys_fsopen(fs->type, FSOPEN_CLOEXEC);
    if (context < 0 && errno == ENODEV)
        return error_text(err, -ENODEV, "file system '%s' is not known to the kernel", fs->type);
    if (context < 0)
        return error_set(err, -errno, "fsopen '%s'", fs->type);
    int ret = filesystem_configure(context, fs, mode, without_group, err);
    if (ret < 0)
        return ret;
    ret = sys_fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
    /* Older kernels check the options of devpts only now, all at once. */
    if (ret == -EINVAL && !without_group && has_terminal_group(fs))
        return create(fs, mode, true, err);
    if (ret < 0)
        return filesystem_fail(context, fs->type, "creation from", fs->source != NULL ? fs->source : "none",
                               ret, err);
    int fd = sys_fsmount(context, FSMOUNT_CLOEXEC, (unsigned)fs->attrs);
    if (fd < 0)
        return filesystem_fail(context, fs->type, "mount of", fs->source != NULL ? fs->source : "none",
                               -errno, err);
    return fd;
}

int filesystem_create(const struct filesystem *fs, int mode, struct error *err)
{
    return create(fs, mode, false, err);
}

/* MOUNT_ATTR_* as flags of mount(2). */
static const struct {
    uint64_t attr;
    unsigned long flag;
} attr_flags[] = {
    {MOUNT_ATTR_RDONLY, MS_RDONLY},         {MOUNT_ATTR_NOSUID, MS_NOSUID},
    {MOUNT_ATTR_NODEV, MS_NODEV},           {MOUNT_ATTR_NOEXEC, MS_NOEXEC},
    {MOUNT_ATTR_NOATIME, MS_NOATIME},       {MOUNT_ATTR_STRICTATIME, MS_STRICTATIME},
    {MOUNT_ATTR_NODIRATIME, MS_NODIRATIME}, {MOUNT_ATTR_NOSYMFOLLOW, MS_NOSYMFOLLOW},
};

int filesystem_mount_legacy(const struct filesystem *fs, int target, bool remount, struct error *err)
{
    unsigned long flags = fs->super | (remount ? MS_REMOUNT : 0);
    FOR_EACH (i, attr_flags) {
        if ((fs->attrs & attr_flags[i].attr) != 0)
            flags |= attr_flags[i].flag;
    }
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
    if (mount(fs->source != NULL ? fs->source : "none", path, fs->type, flags, fs->legacy_data) == 0)
        return 0;
    if (errno == EINVAL)
        return error_set(err, -EINVAL, "file system '%s': options '%s' are refused by the kernel", fs->type,
                         fs->legacy_data);
    return error_set(err, -errno, "mount file system '%s'", fs->type);
}
