/* See warm/image.h; fsync(2), rename(2). */
#include "warm/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/json.h"
#include "warm/store/files.h"

#define INVENTORY     "inventory.img"
#define INVENTORY_MAX ((size_t)64 << 10)
#define FORMAT        "pysbx checkpoint, version 1"
#define PREFIX        "process-"

/* Return whether this is the name of a snapshot, and leads nowhere else. */
static bool is_name(const char *name)
{
    return name != NULL && str_after(name, PREFIX) != NULL && strchr(name, '/') == NULL &&
           strlen(name) < sizeof(((struct image *)NULL)->name);
}

static int open_directory(const char *path, struct error *err)
{
    struct stat st;
    cleanup_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0)
        return error_set(err, -errno, "open the directory '%s' of the checkpoint", path);
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_text(
            err, -EPERM,
            "directory '%s' of the checkpoint: it must belong to user %u, and other users must not "
            "be allowed to write there",
            path, geteuid());
    return fd_steal(&dir);
}

/* Read the inventory. -ENOENT without a message: there is none. */
static int read_inventory(struct arena *a, int dir, const char *path, struct json_value **root,
                          struct error *err)
{
    char *text;
    size_t size;
    int ret = io_read_file_at(a, dir, INVENTORY, INVENTORY_MAX, &text, &size);
    if (ret == -ENOENT)
        return ret;
    if (ret < 0)
        return error_set(err, ret, "read '%s/%s'", path, INVENTORY);
    const struct json_value *format = NULL;
    if (json_parse(a, text, size, NULL, NULL, root, err) == 0 && (*root)->kind == JSON_OBJECT)
        format = json_member(*root, "format");
    if (format == NULL || format->kind != JSON_STRING || !str_eq(format->text, FORMAT))
        return error_text(err, -EINVAL,
                          "'%s' has no checkpoint of this runtime: '%s' has another format than '%s'", path,
                          INVENTORY, FORMAT);
    return 0;
}

/* Return the text of a member, or NULL. */
static const char *member(const struct json_value *root, const char *name, enum json_kind kind)
{
    const struct json_value *value = json_member(root, name);
    return value != NULL && value->kind == kind ? value->text : NULL;
}

int image_create(const char *path, struct image *out, struct error *err)
{
    uint32_t number;
    *out = (struct image){.dir = -1, .file = -1, .path = path};
    out->made = mkdir(path, 0700) == 0;
    if (!out->made && errno != EEXIST)
        return error_set(err, -errno, "make the directory '%s' for the checkpoint", path);
    out->dir = open_directory(path, err);
    if (out->dir < 0)
        return out->dir;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return error_set(err, -errno, "getrandom");
    snprintf(out->name, sizeof(out->name), PREFIX "%08" PRIx32 ".img", number);
    out->file = openat(out->dir, out->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return out->file < 0 ? error_set(err, -errno, "create '%s/%s'", path, out->name) : 0;
}

/* Write the inventory beside the present one, and rename it. */
static int write_inventory(const struct image *image, const char *text, size_t size, struct error *err)
{
    static const char new[] = INVENTORY ".new";
    (void)unlinkat(image->dir, new, 0); /* of a runtime that was killed, or another program's */
    cleanup_fd int fd = openat(image->dir, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int ret = fd < 0 ? -errno : io_write_full(fd, text, size);
    if (ret == 0 && (fsync(fd) < 0 || renameat(image->dir, new, image->dir, INVENTORY) < 0))
        ret = -errno;
    if (ret < 0 && fd >= 0)
        (void)unlinkat(image->dir, new, 0);
    return ret < 0 ? error_set(err, ret, "write '%s/%s'", image->path, INVENTORY) : 0;
}

/* Remove the snapshot of the checkpoint before, and those that killed runtimes have left. */
static void remove_others(const struct image *image)
{
    cleanup_fd int fd = openat(image->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL)
        return;
    (void)fd_steal(&fd);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (is_name(entry->d_name) && !str_eq(entry->d_name, image->name))
            (void)unlinkat(image->dir, entry->d_name, 0);
    closedir(dir);
}

int image_finish(struct image *image, const char *id, const char *version, struct error *err)
{
    struct stat st;
    uint64_t sum = 0;
    char digits[17];
    size_t size;
    int ret =
        fsync(image->file) < 0 || fstat(image->file, &st) < 0 ? -errno : store_file_sum(image->file, &sum);
    if (ret < 0)
        return error_set(err, ret, "write '%s/%s'", image->path, image->name);
    snprintf(digits, sizeof(digits), "%016" PRIx64, sum);
    cleanup_json_out struct json_out *out = json_out_new(true);
    json_out_map_open(out);
    json_out_pair_string(out, "format", FORMAT);
    json_out_pair_string(out, "runtime", version);
    json_out_pair_string(out, "container", id);
    json_out_pair_string(out, "snapshot", image->name);
    json_out_pair_u64(out, "size", (uint64_t)st.st_size);
    json_out_pair_string(out, "checksum", digits);
    json_out_map_close(out);
    const char *text = json_out_text(out, &size);
    if (text == NULL)
        return error_set(err, -ENOMEM, "write '%s/%s'", image->path, INVENTORY);
    ret = write_inventory(image, text, size, err);
    if (ret < 0)
        return ret;
    (void)fsync(image->dir);
    fd_close(&image->file);
    remove_others(image);
    return 0;
}

void image_abandon(struct image *image)
{
    if (image->file >= 0)
        (void)unlinkat(image->dir, image->name, 0);
    if (image->made)
        (void)rmdir(image->path); /* unless a checkpoint is in it */
    fd_close(&image->file);
    fd_close(&image->dir);
}

/* Compare the snapshot with what the inventory says of it. */
static int check_snapshot(int dir, const char *path, const struct json_value *root, struct error *err)
{
    const char *name = member(root, "snapshot", JSON_STRING), *digits = member(root, "checksum", JSON_STRING);
    const char *number = member(root, "size", JSON_NUMBER);
    uint64_t size, sum;
    struct stat st;
    if (!is_name(name) || digits == NULL || number == NULL || str_to_u64(number, INT64_MAX, &size) < 0)
        return error_text(err, -EUCLEAN, "'%s/%s' is damaged", path, INVENTORY);
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, -errno, "open '%s/%s'", path, name);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != size || store_file_sum(fd, &sum) < 0 ||
        sum != strtoull(digits, NULL, 16))
        return error_text(err, -EUCLEAN,
                          "'%s/%s' is damaged: its size or checksum is not the one of the checkpoint", path,
                          name);
    return 0;
}

int image_open(struct arena *a, const char *path, const char **snapshot, struct error *err)
{
    struct json_value *root;
    cleanup_fd int dir = open_directory(path, err);
    if (dir < 0)
        return dir;
    int ret = read_inventory(a, dir, path, &root, err);
    if (ret == -ENOENT)
        return error_text(err, ret, "'%s' has no checkpoint", path);
    if (ret == 0)
        ret = check_snapshot(dir, path, root, err);
    if (ret < 0)
        return ret;
    *snapshot = arena_printf(a, "%s/%s", path, member(root, "snapshot", JSON_STRING));
    return 0;
}
