/* The relay between two terminals. A thread plays the container: it writes any bytes, sets any modes, and
 * may close the terminal before it ends. */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/terminal_relay.h"
#include "targets.h"

#define MAX_TYPED (256UL << 10)
#define MAX_TRIES 20000 /* milliseconds */

struct container {
    struct fuzz_input script;
    int slave, stop, input;
    size_t typed;
    char *said; /* written while the terminal did not change its output */
    size_t said_size;
    bool plain, closed;
};

enum step { STEP_WRITE, STEP_READ, STEP_MODES, STEP_CLOSE, STEP_COUNT };

static void set_modes(struct container *c)
{
    struct termios modes;
    uint64_t which = fuzz_take(&c->script, 1);
    if (tcgetattr(c->slave, &modes) < 0)
        return;
    modes.c_oflag = (which & 1) != 0 ? OPOST | ONLCR : 0;
    modes.c_lflag = (which & 2) != 0 ? ICANON : 0;
    modes.c_lflag |= (which & 4) != 0 ? ECHO : 0;
    modes.c_cc[VEOF] = (cc_t)fuzz_take(&c->script, 1);
    c->plain = c->plain && (which & (1 | 4)) == 0;
    tcsetattr(c->slave, TCSANOW, &modes);
}

static void *play(void *arg)
{
    struct container *c = arg;
    char sink[4096];
    while (c->script.size > 0 && !c->closed) {
        uint64_t step = fuzz_take(&c->script, 1);
        size_t length = (size_t)(step >> 2);
        switch ((enum step)(step % STEP_COUNT)) {
        case STEP_WRITE:
            if (length > c->script.size)
                length = c->script.size;
            ssize_t n = write(c->slave, c->script.data, length);
            if (n > 0) {
                memcpy(c->said + c->said_size, c->script.data, (size_t)n);
                c->said_size += (size_t)n;
            }
            c->script.data += length;
            c->script.size -= length;
            break;
        case STEP_READ:
            (void)!read(c->slave, sink, sizeof(sink));
            break;
        case STEP_MODES:
            set_modes(c);
            break;
        case STEP_CLOSE:
        default:
            c->closed = true;
            break;
        }
    }
    fd_close(&c->slave);
    /* With or without a reader, and with or without a terminal: typed input does not pile up. */
    for (int tries = 0; c->closed && lseek(c->input, 0, SEEK_CUR) < (off_t)c->typed; tries++) {
        fuzz_require(tries < MAX_TRIES);
        usleep(1000);
    }
    (void)!write(c->stop, &(uint64_t){1}, sizeof(uint64_t));
    return NULL;
}

/* Two bytes: the size of the input. One byte: the number of times it is typed. Then the input, then the
 * container's script. */
void fuzz_terminal(const uint8_t *data, size_t size)
{
    struct error error = {0};
    struct fuzz_input input = {data, size};
    struct termios modes;
    pthread_t thread;
    char name[64];
    size_t typed = (size_t)fuzz_take(&input, 2), times = (size_t)fuzz_take(&input, 1);
    if (typed > input.size)
        typed = input.size;
    cleanup_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    cleanup_fd int stop = eventfd(0, EFD_CLOEXEC), in = memfd_create("input", MFD_CLOEXEC);
    cleanup_fd int out = memfd_create("output", MFD_CLOEXEC);
    if (master < 0 || stop < 0 || out < 0 || unlockpt(master) < 0 ||
        ptsname_r(master, name, sizeof(name)) != 0)
        abort();
    for (size_t i = 0; i <= times && (i + 1) * typed <= MAX_TYPED; i++)
        if (pwrite(in, input.data, typed, (off_t)(i * typed)) != (ssize_t)typed)
            abort();
    struct container c = {.script = {input.data + typed, input.size - typed},
                          .slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK),
                          .stop = stop,
                          .input = in,
                          .typed = (size_t)lseek(in, 0, SEEK_END),
                          .said = malloc(size + 1),
                          .plain = true};
    lseek(in, 0, SEEK_SET);
    if (c.slave < 0 || tcgetattr(c.slave, &modes) < 0)
        abort();
    cfmakeraw(&modes);
    tcsetattr(c.slave, TCSANOW, &modes);
    if (pthread_create(&thread, NULL, play, &c) != 0)
        abort();
    const struct terminal_relay_ends ends = {in, out, master, stop, -1};
    fuzz_check_error(terminal_relay_between(&ends, &error), &error);
    pthread_join(thread, NULL);
    char *seen = malloc(c.said_size + 1);
    if (c.plain)
        fuzz_require(pread(out, seen, c.said_size + 1, 0) == (ssize_t)c.said_size &&
                     memcmp(seen, c.said, c.said_size) == 0);
    free(seen);
    free(c.said);
}
