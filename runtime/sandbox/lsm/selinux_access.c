/* Ask the policy through selinuxfs: class/CLASS/index, class/CLASS/perms/NAME, access (the kernel's
 * security/selinux/selinuxfs.c). */
#include "sandbox/lsm/selinux_access.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/str.h"

#define SELINUXFS "/sys/fs/selinux/"
/* A context has at most one page in selinuxfs. */
#define LABEL_MAX 4096
/* AVD_FLAGS_PERMISSIVE */
#define AVD_PERMISSIVE 1U

/* Read a number from a file of selinuxfs, or return 0. */
static uint64_t number(const char *path)
{
    char text[32];
    uint64_t value;
    ssize_t n = io_read_small_at(AT_FDCWD, path, text, sizeof(text));
    return n > 0 && str_to_u64(text, UINT32_MAX, &value) == 0 ? value : 0;
}

/* Look up the bits of permissions in a class of the loaded policy. Return false if the policy does not know
 * one. */
static bool permission_bits(const char *class, const char *permissions, uint32_t *bits)
{
    *bits = 0;
    for (const char *p = permissions; *p != '\0';) {
        char path[256];
        int length = (int)strcspn(p, " ");
        snprintf(path, sizeof(path), SELINUXFS "class/%s/perms/%.*s", class, length, p);
        uint64_t bit = number(path);
        if (bit < 1 || bit > 32)
            return false;
        *bits |= 1U << (bit - 1);
        p += length + (p[length] == ' ');
    }
    return true;
}

/* Do one transaction: write the question and read the answer from the same open file. A permissive domain may
 * do everything. */
static bool is_allowed(const char *question, uint32_t wanted)
{
    char answer[256] = "";
    uint32_t allowed, flags;
    cleanup_fd int fd = open(SELINUXFS "access", O_RDWR | O_CLOEXEC);
    if (fd < 0 || RETRY(write(fd, question, strlen(question))) < 0 ||
        RETRY(read(fd, answer, sizeof(answer) - 1)) <= 0)
        return false;
    /* allowed, decided, auditallow, auditdeny, seqno, flags */
    return sscanf(answer, "%" SCNx32 " %*x %*x %*x %*u %" SCNx32, &allowed, &flags) == 2 &&
           ((allowed & wanted) == wanted || (flags & AVD_PERMISSIVE) != 0);
}

bool selinux_allows(const char *source, const char *target, const char *class, const char *permissions)
{
    char path[256], question[2 * LABEL_MAX + 64];
    uint32_t wanted;
    if (io_read_small_at(AT_FDCWD, SELINUXFS "enforce", path, sizeof(path)) > 0 && str_eq(path, "0"))
        return true;
    snprintf(path, sizeof(path), SELINUXFS "class/%s/index", class);
    uint64_t index = number(path);
    if (index == 0 || !permission_bits(class, permissions, &wanted))
        return false;
    int n = snprintf(question, sizeof(question), "%s %s %" PRIu64 " %x", source, target, index, wanted);
    return n > 0 && (size_t)n < sizeof(question) && is_allowed(question, wanted);
}

const char *selinux_own_label(struct arena *a)
{
    char label[LABEL_MAX];
    int root = proc_root(NULL);
    ssize_t n = root < 0 ? root : io_read_small_at(root, "self/attr/current", label, sizeof(label));
    return n > 0 ? arena_strdup(a, label) : NULL;
}

const char *selinux_file_label(struct arena *a, int fd)
{
    char label[LABEL_MAX];
    ssize_t n = fgetxattr(fd, "security.selinux", label, sizeof(label));
    return n > 0 ? arena_strndup(a, label, strnlen(label, (size_t)n)) : NULL;
}

/* Return the level, which follows the third colon. */
static const char *level_of(const char *label)
{
    for (int i = 0; i < 3 && label != NULL; i++) {
        label = strchr(label, ':');
        label = label != NULL ? label + 1 : NULL;
    }
    return label;
}

const char *selinux_label_type(struct arena *a, const char *label)
{
    const char *level = level_of(label);
    return level != NULL ? arena_strndup(a, label, (size_t)(level - label) - 1) : NULL;
}

const char *selinux_label_plain(struct arena *a, const char *label)
{
    const char *level = level_of(label);
    return level != NULL ? arena_strndup(a, label, (size_t)(level - label) + strcspn(level, ":-")) : NULL;
}

bool selinux_label_has_categories(const char *label)
{
    const char *level = level_of(label);
    return level != NULL && strchr(level, ':') != NULL;
}

/* struct selinux_kernel_status has version, sequence, enforcing, policyload and deny_unknown. */
const char *selinux_state(struct arena *a)
{
    uint32_t status[5] = {0};
    cleanup_fd int fd = open(SELINUXFS "status", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || io_read_full(fd, status, sizeof(status)) != (ssize_t)sizeof(status))
        return "unknown";
    return arena_printf(a, "policy %" PRIu32 " %s", status[3], status[2] != 0 ? "enforcing" : "permissive");
}

static const struct {
    mode_t type;
    const char *class;
} stream_classes[] = {
    {S_IFIFO, "fifo_file"},           {S_IFCHR, "chr_file"}, {S_IFREG, "file"}, {S_IFDIR, "dir"},
    {S_IFSOCK, "unix_stream_socket"}, {S_IFBLK, "blk_file"},
};

/* True if the label may use the file of a standard stream. At execve, the kernel replaces a file that the new
 * label may not use by a null device. Without execve, the descriptor would stay and every use would fail. */
static bool stream_is_allowed(struct arena *a, const char *label, int fd)
{
    struct stat st;
    const char *target = selinux_file_label(a, fd);
    if (fstat(fd, &st) < 0 || target == NULL)
        return true;
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    const char *permissions = mode == O_RDONLY ? "read" : mode == O_WRONLY ? "write" : "read write";
    for (size_t i = 0; i < sizeof(stream_classes) / sizeof(stream_classes[0]); i++)
        if ((st.st_mode & S_IFMT) == stream_classes[i].type)
            return selinux_allows(label, target, stream_classes[i].class, permissions);
    return true;
}

bool selinux_allows_streams(struct arena *a, const char *label)
{
    for (int fd = 0; fd < 3; fd++)
        if (!stream_is_allowed(a, label, fd))
            return false;
    return true;
}

const char *selinux_obstacle(struct arena *a, const char *label)
{
    const char *own = selinux_own_label(a);
    if (own == NULL)
        return "the runtime's own SELinux label is not known";
    if (!selinux_allows(own, own, "process", "setcurrent") ||
        !selinux_allows(own, label, "process", "dyntransition"))
        return "the SELinux policy gives the label to executed programs only (process dyntransition: see "
               "config/selinux/pysbx.cil)";
    /* A program loses these at execve if the policy does not allow them. A restored program would keep them.
     */
    if (!selinux_allows(own, label, "process", "noatsecure siginh rlimitinh"))
        return "the SELinux policy changes environment, signals or limits when a program is executed";
    if (!selinux_allows(label, own, "fd", "use"))
        return "the SELinux policy closes open descriptors when a program is executed";
    return NULL;
}
