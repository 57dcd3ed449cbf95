/* The state record, /etc/passwd of a container, /proc/PID/stat, and messages of the container's process. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "base/proc.h"
#include "container/child/passwd.h"
#include "container/record.h"
#include "container/sync.h"
#include "targets.h"

#define HOME_MAX 100

static int scratch_directory(void)
{
    static int dir = -1;
    return dir >= 0 ? dir : (dir = fuzz_directory());
}

/* Write the record, and return the written bytes. */
static const char *written(struct arena *a, const struct record *record)
{
    struct error error = {0};
    char *text;
    fuzz_require(record_write(scratch_directory(), record, &error) == 0);
    fuzz_require(io_read_file_at(a, scratch_directory(), "state", 1 << 24, &text, NULL) == 0);
    return text;
}

/* A valid record is written and read again without a change. */
void fuzz_record(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct record record, again;
    char *text = fuzz_text(data, size);
    int ret = record_parse(&arena, text, &record, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        const char *first = written(&arena, &record);
        fuzz_require(record_read(&arena, scratch_directory(), record.id, &again, &error) == 0);
        fuzz_require(strcmp(first, written(&arena, &again)) == 0);
        cleanup_json_out struct json_out *out = json_out_new(true);
        record_write_state(&record, "running", record.pid, true, out);
        fuzz_require(json_out_text(out, NULL) != NULL);
    }
    free(text);
    arena_free(&arena);
}

/* The first four bytes are the user. */
void fuzz_passwd(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uid_t uid = (uid_t)fuzz_take(&input, 4);
    char *text = fuzz_text(input.data, input.size);
    const char *home = home_in_passwd(text, uid, HOME_MAX);
    if (home != NULL)
        fuzz_require(home[0] == '/' && strlen(home) <= HOME_MAX && strpbrk(home, ":\n") == NULL);
    free(text);
}

void fuzz_proc(const uint8_t *data, size_t size)
{
    struct proc_stat stat;
    char *text = fuzz_text(data, size);
    if (proc_parse_stat(text, &stat))
        fuzz_require(stat.state != '\0');
    free(text);
}

/* A message that a process of the container may send. */
void fuzz_sync(const uint8_t *data, size_t size)
{
    struct error error = {0};
    int sockets[2];
    pid_t sender = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) < 0)
        abort();
    cleanup_fd int ours = sockets[0], theirs = sockets[1];
    fuzz_require(sync_ask_for_senders(ours, &error) == 0);
    if (size <= 4096 && send(theirs, data, size, 0) == (ssize_t)size) {
        int got = sync_receive_from(ours, &sender, &error);
        fuzz_require(size == 0 || sender == getpid());
        fuzz_require(memchr(error.text, '\0', sizeof(error.text)) != NULL);
        if (got == SYNC_ERROR || got == SYNC_COLD || got == SYNC_DIFFER)
            fuzz_require(error.code < 0);
    }
}
