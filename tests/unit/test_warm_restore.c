/* warm/restore/restore.h: a process is saved, and other processes are restored from it. */
#include "warm/restore/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "parked.h"
#include "unit.h"
#include "warm/snapshot/snapshot.h"

struct restored {
    pid_t pid;
    int output, errors;
};

/* Options of all requests. `overlapped` maps the snapshot immediately, next to the memory of the calling
 * process. `begins` begins the restore before it is prepared. */
static bool overlapped, begins;

/* `argument` is the second argument of the command line. */
static struct restore_request make_request(int file, char *argument, const struct restore_finish *finish)
{
    static char *arguments[4], *environment[] = {"NAME=value", NULL};
    static struct snapshot snapshot;
    struct error err = {0};
    snapshot_close(&snapshot);
    if (snapshot_open(file, &snapshot, &err) < 0)
        bail_out("open a snapshot: %s", err.text);
    arguments[0] = "python3";
    arguments[1] = argument;
    arguments[2] = "two words";
    return (struct restore_request){
        .snapshot = &snapshot,
        .file = file,
        .root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
        .agent = parked_open_self(),
        .comm = "restored",
        .argv = arguments,
        .envp = environment,
        .program = WARM_PROGRAM_COMMAND,
        .program_index = 2,
        .overlapped = overlapped,
        .error_message = 8,
        .finish = *finish,
    };
}

/* Create a child that restores the snapshot's process. It calls `confine` before. */
static struct restored start_restored(int snapshot, char *argument, int (*confine)(void),
                                      const struct restore_finish *finish)
{
    int output[2], errors[2];
    if (pipe2(output, O_CLOEXEC) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, errors) < 0)
        bail_out("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {0};
        struct restore_request request = make_request(snapshot, argument, finish);
        struct restore *restore = begins ? restore_begin(request.snapshot, snapshot, true, true) : NULL;
        dup2(output[1], 1);
        if ((confine != NULL && confine() < 0) || restore_prepare(&request, &restore, &err) < 0) {
            dprintf(1, "bad prepare: %s\n", err.text);
            _exit(1);
        }
        restore_go(restore, errors[1]);
    }
    close(output[1]);
    close(errors[1]);
    return (struct restored){pid, output[0], errors[0]};
}

static void finish_restored(struct restored r, const char *how)
{
    char text[8192] = "", error[256] = "";
    size_t used = 0;
    for (ssize_t n; (n = read(r.output, text + used, sizeof(text) - 1 - used)) > 0;)
        used += (size_t)n;
    ssize_t n = recv(r.errors, error, sizeof(error) - 1, 0);
    if (n > 8)
        diag("%s", error + 8);
    int status;
    waitpid(r.pid, &status, 0);
    close(r.output);
    close(r.errors);
    bool end = false;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        ok(strncmp(line, "good ", 5) == 0, "%s: %s", how, line + strcspn(line, " ") + 1);
        end = end || strcmp(line, "good end") == 0;
    }
    ok(end, "%s: it reached its end", how);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 23, "%s: its exit code is its own", how);
    if (WIFSIGNALED(status))
        diag("signal %d", WTERMSIG(status));
}

static const struct restore_finish plain = {.close_from = 3};

/* A user without any rights, as in a container with the tightest confinement. */
static int become_nobody(void)
{
    if (setrlimit(RLIMIT_STACK, &(struct rlimit){64 << 20, 64 << 20}) < 0)
        return -1;
    return setgid(65534) < 0 || setuid(65534) < 0 ? -1 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Process 1 of a pid namespace, in a user namespace. */
static int become_first(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        return -1;
    pid_t pid = fork();
    if (pid <= 0)
        return pid;
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

#define ALLOW(call)                                                                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void test_filter(int snapshot)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write),
        ALLOW(close),
        ALLOW(rt_sigreturn),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
    const struct restore_finish finish = {.filter = &program, .close_from = 3};
    finish_restored(start_restored(snapshot, "filtered", become_nobody, &finish), "with a filter");

    filter[0].code = 0xffff;
    struct restored r = start_restored(snapshot, "filtered", become_nobody, &finish);
    struct {
        int message, code;
        char text[120];
    } report = {0};
    ok(recv(r.errors, &report, sizeof(report), 0) > 8, "a failure during the restore is reported");
    is_int(report.message, 8, "… with the requested word");
    is_int(report.code, -EINVAL, "… and the error");
    is_str(report.text, "warm start: load the seccomp filter: error 022", "… and names the failed step");
    int status;
    waitpid(r.pid, &status, 0);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 1, "… and the process ends");
    close(r.output);
    close(r.errors);
}

static void test_finish(int snapshot)
{
    const struct __user_cap_data_struct none[2] = {0};
    const struct restore_finish finish = {.caps = none, .close_from = 3};
    finish_restored(start_restored(snapshot, "powerless", NULL, &finish), "without capabilities");
}

/* A label is written once and its file closed, independent of the snapshot's descriptor numbers. */
static void test_descriptor(void)
{
    cleanup_fd int snapshot = memfd_create("snapshot", MFD_CLOEXEC);
    struct error err = {0};
    char name[64], text[64] = "";
    int label[2];
    parked_file_name(name, getpid());
    unlink(name);
    is_int(parked_dump("an open file that is mapped", snapshot, &err), 0,
           "a process with an open file is saved: %s", err.text);
    if (pipe2(label, O_CLOEXEC) < 0)
        bail_out("pipe: %s", strerror(errno));
    const struct restore_finish finish = {.labels = {{label[1], "a label"}}, .close_from = 3};
    finish_restored(start_restored(snapshot, "descriptor", NULL, &finish), "with an open file");
    close(label[1]);
    ssize_t n = read(label[0], text, sizeof(text) - 1);
    is_str(text, "a label", "a label is written");
    ok(n > 0 && read(label[0], text, sizeof(text)) == 0, "… and its file closed");
    close(label[0]);
    unlink(name);
}

/* For a builder's snapshot, unless the file may have been another one when it was read. */
static void test_open_file(void)
{
    cleanup_fd int snapshot = memfd_create("snapshot", MFD_CLOEXEC);
    struct error err = {0};
    char name[64];
    parked_file_name(name, getpid());
    unlink(name);
    is_int(parked_dump_with("an open file", (struct dump_request){.out = snapshot, .began = 1}, &err),
           -ENOTSUP, "not saved: a builder with an open file that has changed since it began");
    unlink(name);
    is_int(parked_dump_with("an open file", (struct dump_request){.out = snapshot, .began = INT64_MAX}, &err),
           0, "a builder with an open file is saved: %s", err.text);
    finish_restored(start_restored(snapshot, "descriptor", NULL, &plain), "with an open file of a builder");
    struct restore *restore = NULL;
    struct restore_request request = make_request(snapshot, "-c", &plain);
    ok(truncate(name, 1) == 0, "the file is changed");
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "the snapshot is stale then");
    ok(strstr(err.text, name) != NULL, "the file is named");
    unlink(name);
    close(request.root);
    close(request.agent);
}

/* If restore_prepare fails, nothing of its work remains in this process. */
static void test_stale(void)
{
    cleanup_fd int snapshot = memfd_create("snapshot", MFD_CLOEXEC);
    struct error err = {0};
    char name[64];
    parked_file_name(name, getpid());
    unlink(name);
    is_int(parked_dump("a file", snapshot, &err), 0, "a process with a mapped file is saved");
    struct restore *restore = NULL;
    struct restore_request request = make_request(snapshot, "-c", &plain);
    cleanup_fd int file = open(name, O_WRONLY | O_CLOEXEC);
    ok(write(file, "x", 1) == 1, "the file is changed");
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "the snapshot is stale then");
    ok(strstr(err.text, name) != NULL && strstr(err.text, "has been replaced") != NULL, "the file is named");
    unlink(name);
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "it is stale without the file");
    ok(strstr(err.text, name) != NULL && strstr(err.text, "no longer exists") != NULL, "the file is named");
    mkfifo(name, 0600);
    is_int(restore_prepare(&request, &restore, &err), -ESTALE, "a FIFO at its path does not block");
    unlink(name);
    close(request.root);
    close(request.agent);
}

/* Return the VMAs of this process, except those that the C library creates on demand. */
static size_t count_mappings(void)
{
    size_t count = 0;
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "re");
    if (f == NULL)
        bail_out("/proc/self/maps: %s", strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL)
        count += strstr(line, "[heap]") == NULL;
    fclose(f);
    return count;
}

/* Return an address at which the snapshot has a VMA, and this process none. */
static void *find_address(int file)
{
    struct snapshot snapshot;
    struct error err = {0};
    if (snapshot_open(file, &snapshot, &err) < 0)
        bail_out("open a snapshot: %s", err.text);
    void *address = (void *)snapshot.vmas[snapshot.vma_count / 2].start;
    snapshot_close(&snapshot);
    return address;
}

static void *take_address(void *address)
{
    void *taken = mmap(address, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (taken == MAP_FAILED)
        bail_out("reserve an address: %s", strerror(errno));
    return taken;
}

static void give_up(struct restore **restore)
{
    restore_free(*restore);
    *restore = NULL;
}

/* A preparation next to the process can be undone, and VMAs in its way remain. Then the exchange happens
 * later. */
static void test_overlapped(int snapshot)
{
    struct restore *restore = NULL;
    struct error err = {0};
    struct restore_request request = make_request(snapshot, "-c", &plain);
    /* With the first random number, glibc since 2.41 maps the pages of the vDSO's getrandom permanently. */
    unsigned char number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        bail_out("getrandom: %s", strerror(errno));
    size_t before = count_mappings();
    request.overlapped = false;
    is_int(restore_prepare(&request, &restore, &err), 0, "a snapshot is prepared");
    ok(!restore_is_mapped(restore), "it is not mapped before that is necessary");
    give_up(&restore);
    request.overlapped = true;
    is_int(restore_prepare(&request, &restore, &err), 0, "another is prepared next to this process");
    ok(restore_is_mapped(restore), "it is mapped");
    ok(count_mappings() > before + 5, "its VMAs exist");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "abandoned, nothing of it remains");

    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int *taken = take_address(find_address(snapshot));
    *taken = 4711;
    before = count_mappings();
    is_int(restore_prepare(&request, &restore, &err), 0, "prepared with a VMA in the way");
    ok(!restore_is_mapped(restore), "it is not mapped then");
    is_int(*taken, 4711, "the VMA in the way is unchanged");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "nothing of the attempt remains");
    finish_restored(start_restored(snapshot, "-c", NULL, &plain), "with a VMA in the way");
    munmap(taken, page);
    close(request.root);
    close(request.agent);
}

/* Return whether this process has a private page at the address. */
static bool is_private(uint64_t address)
{
    uint64_t entry = 0, place = address / (uint64_t)sysconf(_SC_PAGESIZE) * sizeof(entry);
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t n = pread(fd, &entry, sizeof(entry), (off_t)place);
    close(fd);
    return n == (ssize_t)sizeof(entry) && (entry >> 63 & 1) != 0 && (entry >> 61 & 1) == 0;
}

/* Return a page of memory that the snapshot contains. */
static struct snapshot_write writable_page(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->extent_count; i++) {
        const struct snapshot_vma *a = snapshot_vma_at(snapshot, snapshot->extents[i].address, 1);
        if (a->flags == 0 && a->prot == (PROT_READ | PROT_WRITE))
            return (struct snapshot_write){.address = snapshot->extents[i].address, .pages = 1};
    }
    return (struct snapshot_write){0};
}

/* The write set is copied once, at any time that the caller chooses. */
static void test_copied(int file)
{
    struct error err = {0};
    char here[1];
    struct iovec one = {(void *)((uintptr_t)here & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1)), 1};
    if (syscall(SYS_process_madvise, -10000, &one, 1, 23, 0) < 0 && /* PIDFD_SELF, MADV_POPULATE_WRITE */
        (errno == EBADF || errno == EINVAL || errno == ENOSYS)) {
        skip("before Linux 6.15 a process cannot ask for copies of its pages");
        return;
    }
    struct restore_request request = make_request(file, "-c", &plain);
    struct snapshot snapshot = *request.snapshot;
    struct snapshot_write page = writable_page(&snapshot);
    snapshot.writes = &page;
    snapshot.write_count = 1;
    request.snapshot = &snapshot;
    for (int i = 0; i < 16; i++) {
        bool early = (i & 1) != 0, at_all = (i & 2) != 0, wanted = (i & 4) == 0 || (i & 8) != 0;
        page.for_dumps = (i & 4) != 0;
        request.core_dumps = (i & 8) != 0;
        request.prefetch = at_all;
        struct restore *restore = restore_begin(&snapshot, file, early, request.core_dumps);
        ok(restore != NULL && is_private(page.address) == (early && wanted),
           "begun: the page%s is %s with core dumps %s", page.for_dumps ? " for core dumps" : "",
           early && wanted ? "copied" : "shared", request.core_dumps ? "allowed" : "forbidden");
        is_int(restore_prepare(&request, &restore, &err), 0, "prepared");
        ok(restore_is_mapped(restore) && is_private(page.address) == ((early || at_all) && wanted),
           "then it is %s", (early || at_all) && wanted ? "copied" : "shared");
        give_up(&restore);
    }
    close(request.root);
    close(request.agent);
}

/* A begun restore continues, or has no effect on the next one. */
static void test_begun(int file)
{
    struct error err = {0};
    struct restore_request request = make_request(file, "-c", &plain);
    const size_t before = count_mappings(), page = (size_t)sysconf(_SC_PAGESIZE);
    struct restore *restore = restore_begin(request.snapshot, file, true, true);
    ok(restore != NULL && count_mappings() > before, "a part of a snapshot is mapped");
    ok(!restore_is_mapped(restore), "not all of it");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "abandoned, nothing of it remains");

    restore = restore_begin(request.snapshot, file, true, true);
    is_int(restore_prepare(&request, &restore, &err), 0, "a begun restore is prepared");
    ok(restore_is_mapped(restore), "… and mapped");
    give_up(&restore);
    is_int((int)count_mappings(), (int)before, "abandoned, nothing of it remains");

    struct snapshot_header header = *request.snapshot->header;
    struct snapshot snapshot = *request.snapshot;
    snapshot.header = &header;
    header.host.cpu ^= 1;
    ok(restore_begin(&snapshot, file, true, true) == NULL, "nothing is begun on another CPU");
    is_int((int)count_mappings(), (int)before, "nothing is mapped");
    struct restore_request elsewhere = request;
    elsewhere.snapshot = &snapshot;
    is_int(restore_prepare(&elsewhere, &restore, &err), -ENOTSUP, "nothing is prepared");
    is_str(err.text, "the snapshot was made on another CPU", "the reason is given");

    struct rlimit limit;
    getrlimit(RLIMIT_DATA, &limit);
    restore = restore_begin(request.snapshot, file, true, true);
    setrlimit(RLIMIT_DATA, &(struct rlimit){1 << 20, limit.rlim_max});
    is_int(restore_prepare(&request, &restore, &err), -ENOMEM, "a begun restore cannot be prepared");
    ok(restore == NULL, "it is abandoned");
    setrlimit(RLIMIT_DATA, &limit);
    is_int((int)count_mappings(), (int)before, "nothing of it remains");

    /* Once with a VMA of a file in the way that does not belong to the beginning, and once with each that
     * may. */
    for (size_t i = 0; i < request.snapshot->vma_count; i++) {
        const struct snapshot_vma *a = &request.snapshot->vmas[i];
        if ((a->flags & SNAPSHOT_VMA_STACK) != 0)
            continue;
        void *taken = take_address((void *)a->start);
        bool same = count_mappings() == before + 1;
        bool begun = (restore = restore_begin(request.snapshot, file, true, true)) != NULL;
        bool prepared = restore_prepare(&request, &restore, &err) == 0;
        ok(prepared && !restore_is_mapped(restore), "something at %#lx: mapped later%s",
           (unsigned long)a->start, begun ? ", though begun" : "");
        give_up(&restore);
        ok(!same || count_mappings() == before + 1, "nothing of it remains, and all of the other");
        munmap(taken, page);
    }
    close(request.root);
    close(request.agent);
}

static void test_limits(int snapshot)
{
    struct restore_request request = make_request(snapshot, "-c", &plain);
    struct restore *restore = NULL;
    struct error err = {0};
    struct rlimit before;
    getrlimit(RLIMIT_DATA, &before);
    setrlimit(RLIMIT_DATA, &(struct rlimit){1 << 20, before.rlim_max});
    is_int(restore_prepare(&request, &restore, &err), -ENOMEM, "a limit that is too small is noticed before");
    setrlimit(RLIMIT_DATA, &before);
    unsigned long all = 0, data = 0;
    is_int(sscanf(err.text, "RLIMIT_DATA is smaller than the snapshot needs: RLIMIT_AS=%lu RLIMIT_DATA=%lu",
                  &all, &data),
           2, "it is named, with what the snapshot needs: %s", err.text);
    ok(data > 1 << 20 && data < all, "which is more than the limit, and a part of the address space");
    close(request.root);
    close(request.agent);
}

static void test_restore(int snapshot)
{
    finish_restored(start_restored(snapshot, "-c", NULL, &plain), "restored");
    struct restored one = start_restored(snapshot, "-c", NULL, &plain);
    struct restored two = start_restored(snapshot, "-c", NULL, &plain);
    finish_restored(one, "one of two");
    finish_restored(two, "the other");
    if (geteuid() == 0)
        finish_restored(start_restored(snapshot, "-c", become_nobody, &plain), "as an unprivileged user");
    else
        skip("another user: needs root");
    finish_restored(start_restored(snapshot, "-c", become_first, &plain), "in a user namespace");
    test_filter(snapshot);
    test_finish(snapshot);
    test_descriptor();
    test_open_file();
    test_limits(snapshot);
}

int main(int argc, char **argv)
{
    int exit_code;
    if (parked_is_wanted(argc, argv, &exit_code))
        return exit_code;
#ifdef __SANITIZE_ADDRESS__
    skip("a process of AddressSanitizer has more memory than can be saved");
    return done_testing();
#endif
    struct error err = {0};
    cleanup_fd int snapshot = memfd_create("snapshot", MFD_CLOEXEC);
    if (is_int(parked_dump("nothing", snapshot, &err), 0, "a process is saved")) {
        test_restore(snapshot);
        overlapped = true;
        test_restore(snapshot);
        begins = true;
        test_restore(snapshot);
        begins = false;
        test_overlapped(snapshot);
        test_copied(snapshot);
        test_begun(snapshot);
    } else {
        diag("%s", err.text);
    }
    test_stale();
    return done_testing();
}
