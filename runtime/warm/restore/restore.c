/* From a snapshot to the process: check, plan, jump (warm/restore/restore.h). */
#include "warm/restore/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "warm/file_identity.h"
#include "warm/restore/place.h"
#include "warm/restore/plan.h"
#include "warm/restore/restorer/x86_64.h"
#include "warm/snapshot/snapshot.h"

#ifndef SYS_rseq
#define SYS_rseq 334
#endif

/* The size of the restorer's stack. */
#define STACK_SIZE (16UL << 10)

struct restore {
    struct restore_request request;
    struct restore_place place;
    struct restore_plan plan;
    int *files;
    size_t file_count;
    int urandom;
    /* Copies of data that the request points to, so that the caller may release it. */
    struct sock_fprog filter;
    struct __user_cap_data_struct caps[2];
};

const char *restore_unavailable(void)
{
    return NULL;
}

static int check_host(const struct snapshot *snapshot, struct error *err)
{
    struct snapshot_host here;
    snapshot_host_now(&here);
    const char *difference = snapshot_host_difference(&snapshot->header->host, &here);
    if (difference != NULL)
        return error_text(err, -ENOTSUP, "the snapshot was made %s", difference);
    return 0;
}

/* Return a descriptor whose number no descriptor of the snapshot has, because it is needed to the end: `fd`
 * itself, or a copy. Negative errno. */
static int aside(const struct snapshot *snapshot, int fd)
{
    int limit = 0;
    for (size_t i = 0; i < snapshot->header->descriptor_count; i++)
        if ((int)snapshot->header->descriptors[i].fd >= limit)
            limit = (int)snapshot->header->descriptors[i].fd + 1;
    if (fd < 0 || fd >= limit)
        return fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, limit);
    return copy < 0 ? -errno : copy;
}

/* The directory of the file that was opened last: the next file is usually in the same. */
struct folder {
    const char *path;
    size_t length;
    int fd;
};

/* Any file may be at the path now: a FIFO must not block the runtime, and a terminal must not become its
 * controlling terminal. */
static int open_file(int root, const char *path, struct folder *last)
{
    char folder[PATH_MAX];
    const char *name = strrchr(path, '/') + 1;
    size_t length = (size_t)(name - path);
    if (length >= sizeof(folder))
        return -ENAMETOOLONG;
    if (last->fd < 0 || length != last->length || memcmp(path, last->path, length) != 0) {
        memcpy(folder, path, length);
        folder[length] = '\0';
        fd_close(&last->fd);
        *last =
            (struct folder){path, length, path_open_in_root_nosymlink(root, folder, O_PATH | O_DIRECTORY, 0)};
    }
    return last->fd < 0 ? last->fd
                        : path_open_in_root_nosymlink(last->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

/* The file must be the one that the snapshot was made with. */
static int compare_file(int fd, const char *path, const struct file_identity *expected, struct error *err)
{
    struct file_identity identity;
    int ret = identity_of(fd, &identity);
    if (ret < 0)
        return error_set(err, ret, "file '%s' of the snapshot", path);
    return identity_equal(&identity, expected)
               ? 0
               : error_text(err, -ESTALE, "file '%s' of the snapshot has been replaced", path);
}

/* Open one of the files, and add its descriptor to those of the restore. */
static int take_file(struct restore *restore, const char *path, const struct file_identity *expected,
                     struct folder *last, struct error *err)
{
    cleanup_fd int fd = open_file(restore->request.root, path, last);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return error_text(err, -ESTALE, "file '%s' of the snapshot no longer exists", path);
    if (fd < 0)
        return error_set(err, fd, "open file '%s' of the snapshot", path);
    int ret = compare_file(fd, path, expected, err);
    if (ret < 0)
        return ret;
    int kept = aside(restore->request.snapshot, fd);
    if (kept < 0)
        return error_set(err, kept, "open file '%s' of the snapshot", path);
    restore->files[restore->file_count++] = kept;
    if (kept == fd)
        fd_steal(&fd);
    return 0;
}

/* Open the files that the snapshot has mapped or open. */
static int open_files(struct restore *restore, struct error *err)
{
    const struct snapshot *snapshot = restore->request.snapshot;
    restore->files = calloc(snapshot->file_count + 1, sizeof(*restore->files));
    if (restore->files == NULL)
        return error_set(err, -ENOMEM, "open the snapshot's files");
    struct folder last = {NULL, 0, -1};
    int ret = 0;
    for (size_t i = 0; ret == 0 && i < snapshot->file_count; i++) {
        const char *path = snapshot_path(snapshot, &snapshot->files[i]);
        ret = take_file(restore, path, &snapshot->files[i].identity, &last, err);
    }
    fd_close(&last.fd);
    return ret;
}

/* Open the container's own device, if a descriptor of the snapshot needs it. */
static int open_urandom(struct restore *restore, struct error *err)
{
    const struct snapshot_header *h = restore->request.snapshot->header;
    bool wanted = false;
    for (size_t i = 0; i < h->descriptor_count; i++)
        wanted |= h->descriptors[i].file == SNAPSHOT_FILE_URANDOM;
    if (!wanted)
        return 0;
    struct stat st;
    cleanup_fd int fd = path_open_in_root_nosymlink(restore->request.root, "/dev/urandom",
                                                    O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return error_set(err, fd, "open '/dev/urandom'");
    if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != SNAPSHOT_URANDOM_DEVICE)
        return error_text(err, -ENOTSUP, "'/dev/urandom' is not the kernel's device");
    restore->urandom = aside(restore->request.snapshot, fd);
    if (restore->urandom == fd)
        fd_steal(&fd);
    return restore->urandom < 0 ? error_set(err, restore->urandom, "copy a descriptor") : 0;
}

/* The area that the C library has registered with the kernel (rseq(2), glibc 2.35). Its size differs from
 * __rseq_size, and only the exact size ends the registration. Asked with a wrong signature, the kernel
 * returns EPERM if everything else is right. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
#define RSEQ_SIGNATURE  0x53053053U /* glibc's, for x86 */
#define RSEQ_UNREGISTER 1
#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN        28
#endif

static int find_own_rseq(struct restore_plan *plan, struct error *err)
{
    if (plan->request->cloned || &__rseq_size == NULL || &__rseq_offset == NULL || __rseq_size == 0)
        return 0;
    uint64_t address = (uint64_t)__builtin_thread_pointer() + (uint64_t)__rseq_offset;
    uint64_t align = getauxval(AT_RSEQ_ALIGN), feature = getauxval(AT_RSEQ_FEATURE_SIZE);
    const uint64_t sizes[] = {32, align > 0 ? (feature + align - 1) / align * align : 32, __rseq_size};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (syscall(SYS_rseq, address, sizes[i], RSEQ_UNREGISTER, ~RSEQ_SIGNATURE) < 0 && errno == EPERM) {
            plan->own_rseq = address;
            plan->own_rseq_size = (uint32_t)sizes[i];
            plan->own_rseq_signature = RSEQ_SIGNATURE;
            return 0;
        }
    return error_text(err, -ENOTSUP, "the C library's restartable sequences are of an unknown size");
}

/* Put the strings of a list one after another at *next, which moves on, and make an array of pointers to
 * them. */
static uint64_t put_strings(struct restore_plan *plan, char *const *list, uint64_t *next, uint64_t *count)
{
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    uint64_t *pointers = restore_plan_alloc(plan, (n + 1) * sizeof(*pointers));
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(list[i]) + 1;
        memcpy((void *)*next, list[i], size);
        pointers[i] = *next;
        *next += size;
    }
    *count = n;
    return (uint64_t)pointers;
}

static size_t strings_size(const struct restore_request *request)
{
    size_t size = 1;
    for (size_t i = 0; request->argv[i] != NULL; i++)
        size += strlen(request->argv[i]) + 1;
    for (size_t i = 0; request->envp[i] != NULL; i++)
        size += strlen(request->envp[i]) + 1;
    return size;
}

static int put_params(struct restore_plan *plan, struct error *err)
{
    const struct restore_place *place = plan->place;
    struct warm_params *params = restore_plan_alloc(plan, sizeof(*params));
    params->magic = WARM_PARAMS_MAGIC;
    params->area = place->code;
    params->area_size = place->code_size + place->data_size;
    uint64_t next = place->strings;
    plan->argument_start = next;
    params->argv = put_strings(plan, plan->request->argv, &next, &params->argc);
    plan->argument_end = plan->environment_start = next;
    params->envp = put_strings(plan, plan->request->envp, &next, &params->envc);
    plan->environment_end = next;
    params->program = plan->request->program;
    params->program_index = plan->request->program_index;
    params->required = plan->request->required;
    plan->params = (uint64_t)params;
    if (getrandom(params->entropy, sizeof(params->entropy), 0) != (ssize_t)sizeof(params->entropy))
        return error_set(err, -errno, "get random bytes");
    return 0;
}

static uint64_t whole_pages(uint64_t size, uint64_t page)
{
    return (size + page - 1) / page * page;
}

/* Check now, not half way, whether the limits of this process forbid the memory. That is not the snapshot's
 * fault: others can use it. */
static int check_limits(const struct snapshot *snapshot, const struct restore_place *place, struct error *err)
{
    uint64_t all = whole_pages(restorer_size(), snapshot->header->page_size) + place->data_size +
                   place->strings_size + place->parking_size,
             data = place->data_size + place->strings_size;
    for (size_t i = 0; i < snapshot->vma_count; i++) {
        const struct snapshot_vma *a = &snapshot->vmas[i];
        all += a->end - ((a->flags & SNAPSHOT_VMA_STACK) != 0 ? restore_place_stack(snapshot, a) : a->start);
        /* A VMA that is copied is writable first. The kernel does not count a stack as data. */
        if (((a->prot & PROT_WRITE) != 0 || snapshot_vma_is_copied(a)) &&
            (a->flags & SNAPSHOT_VMA_STACK) == 0)
            data += a->end - a->start;
    }
    const struct {
        int resource;
        const char *name;
        uint64_t needed;
    } limits[] = {{RLIMIT_AS, "RLIMIT_AS", all}, {RLIMIT_DATA, "RLIMIT_DATA", data}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        struct rlimit limit;
        if (getrlimit(limits[i].resource, &limit) == 0 && limit.rlim_cur < limits[i].needed)
            return error_classify(err, ERROR_LIMITS_TOO_SMALL,
                                  error_text(err, -ENOMEM,
                                             "%s is smaller than the snapshot needs: RLIMIT_AS=%" PRIu64
                                             " RLIMIT_DATA=%" PRIu64,
                                             limits[i].name, all, data));
    }
    return 0;
}

/* This process may be denied anonymous executable memory, although the builder was not: by SELinux (execmem),
 * or PR_SET_MDWE. As with limits, others can use the snapshot. */
static int check_code(const struct snapshot *snapshot, struct error *err)
{
    const uint64_t page = snapshot->header->page_size;
    bool needed = false;
    for (size_t i = 0; i < snapshot->vma_count; i++)
        needed = needed ||
                 ((snapshot->vmas[i].prot & PROT_EXEC) != 0 && snapshot_vma_is_copied(&snapshot->vmas[i]));
    void *probe =
        needed ? mmap(NULL, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
               : NULL;
    if (probe == MAP_FAILED)
        return error_text(err, -EACCES,
                          "the snapshot has code that was generated at run time, which is forbidden here");
    if (probe != NULL)
        munmap(probe, page);
    return 0;
}

static int make_place(struct restore *restore, struct error *err)
{
    const struct snapshot_header *h = restore->request.snapshot->header;
    struct restore_place *place = &restore->place;
    place->data_size = whole_pages(
        restore_plan_size(restore->request.snapshot, &restore->request) + STACK_SIZE, h->page_size);
    place->strings_size = whole_pages(strings_size(&restore->request), h->page_size);
    for (size_t i = 0; i < h->vdso_count; i++)
        place->parking_size += h->vdso[i].end - h->vdso[i].start;
    int ret = check_limits(restore->request.snapshot, place, err);
    if (ret < 0)
        return ret;
    ret = check_code(restore->request.snapshot, err);
    if (ret < 0)
        return ret;
    return restore_place_make(restore->request.snapshot, place, err);
}

static void close_files(struct restore *restore)
{
    while (restore->file_count > 0)
        close(restore->files[--restore->file_count]);
}

/* The snapshot's own descriptors are made from its files, which would have to stay open. */
static void map_overlapped(struct restore *restore)
{
    if (restore->request.overlapped && restore->request.snapshot->header->descriptor_count == 0 &&
        restore_plan_map_overlapped(&restore->plan))
        close_files(restore);
}

static uint64_t find_stack(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->vma_count; i++)
        if ((snapshot->vmas[i].flags & SNAPSHOT_VMA_STACK) != 0)
            return restore_place_stack(snapshot, &snapshot->vmas[i]);
    return 0;
}

static int make_plan(struct restore *restore, struct error *err)
{
    struct restore_plan *plan = &restore->plan;
    plan->place = &restore->place;
    plan->files = restore->files;
    plan->urandom = restore->urandom;
    plan->own_vdso = getauxval(AT_SYSINFO_EHDR);
    plan->stack = find_stack(plan->snapshot);
    int ret = find_own_rseq(plan, err);
    if (ret < 0)
        return ret;
    restore_plan_begin(plan, restore->request.error_message);
    ret = put_params(plan, err);
    if (ret < 0)
        return ret;
    restore_plan_frame(plan);
    restore_plan_map(plan);
    map_overlapped(restore);
    restore_plan_leave(plan);
    restore_plan_memory(plan);
    restore_plan_process(plan);
    return 0;
}

/* The caller's descriptors stay open too: all are close-on-exec, and the restorer closes them. */
static int set_labels_aside(struct restore *restore, struct error *err)
{
    struct restore_finish *finish = &restore->request.finish;
    for (size_t i = 0; i < sizeof(finish->labels) / sizeof(finish->labels[0]); i++) {
        struct restore_label *label = &finish->labels[i];
        if (label->text != NULL)
            label->fd = aside(restore->request.snapshot, label->fd);
        if (label->text != NULL && label->fd < 0)
            return error_set(err, label->fd, "copy a descriptor");
    }
    return 0;
}

void restore_free(struct restore *restore)
{
    if (restore == NULL)
        return;
    restore_plan_unmap(&restore->plan);
    if (restore->place.code != 0)
        restore_place_unmake(&restore->place);
    close_files(restore);
    free(restore->files);
    fd_close(&restore->urandom);
    free(restore);
}

static void copy_request(struct restore *restore, const struct restore_request *request)
{
    struct restore_finish *finish = &restore->request.finish;
    restore->request = *request;
    if (finish->filter != NULL) {
        restore->filter = *finish->filter;
        finish->filter = &restore->filter;
    }
    if (finish->caps != NULL) {
        memcpy(restore->caps, finish->caps, sizeof(restore->caps));
        finish->caps = restore->caps;
    }
}

static struct restore *make_restore(const struct snapshot *snapshot, int file)
{
    struct restore *restore = calloc(1, sizeof(*restore));
    if (restore == NULL)
        return NULL;
    restore->request.snapshot = restore->plan.snapshot = snapshot;
    restore->request.file = file;
    restore->plan.request = &restore->request;
    restore->urandom = -1;
    return restore;
}

struct restore *restore_begin(const struct snapshot *snapshot, int file, bool copy, bool core_dumps)
{
    struct error ignored = {0};
    /* On a virtual machine CPUID traps to the hypervisor: some five microseconds for each question. */
    if (snapshot->header->descriptor_count > 0 || check_host(snapshot, &ignored) < 0)
        return NULL;
    struct restore *restore = make_restore(snapshot, file);
    if (restore == NULL)
        return NULL;
    restore->request.core_dumps = core_dumps;
    if (restore_plan_map_early(&restore->plan, copy))
        return restore;
    restore_free(restore);
    return NULL;
}

static int prepare(struct restore *restore, struct error *err)
{
    int ret = open_files(restore, err);
    if (ret < 0)
        return ret;
    ret = open_urandom(restore, err);
    if (ret < 0)
        return ret;
    ret = set_labels_aside(restore, err);
    if (ret < 0)
        return ret;
    ret = make_place(restore, err);
    if (ret < 0)
        return ret;
    return make_plan(restore, err);
}

int restore_prepare(const struct restore_request *request, struct restore **out, struct error *err)
{
    struct restore *restore = *out != NULL ? *out : make_restore(request->snapshot, request->file);
    if (restore == NULL)
        return error_set(err, -ENOMEM, "restore the snapshot");
    int ret = *out == NULL ? check_host(request->snapshot, err) : 0;
    *out = NULL;
    copy_request(restore, request);
    if (ret == 0)
        ret = prepare(restore, err);
    if (ret < 0) {
        restore_free(restore);
        return ret;
    }
    *out = restore;
    return 0;
}

bool restore_is_mapped(const struct restore *restore)
{
    return restore->plan.mapped == RESTORE_MAPPED_ALL;
}

_Noreturn void restore_go(struct restore *restore, int error_fd)
{
    struct restore_place *place = &restore->place;
    int report = aside(restore->request.snapshot, error_fd);
    restore_plan_finish(&restore->plan, report < 0 ? -1 : report);
    uint64_t entry = place->code + ((uintptr_t)restorer_run - (uintptr_t)restorer_start);
    restorer_enter(entry, place->data + place->data_size, restore->plan.work);
}
