/* The format: two magic numbers, the size, and a message of Protocol Buffers; criu/include/magic.h and
 * images/stats.proto of CRIU. */
#include "prewarm/criu_statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"

#define SERVICE_MAGIC    0x55105940U
#define STATISTICS_MAGIC 0x57093306U

uint64_t criu_statistics_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Append a number: seven bits a byte, the lowest first. */
static unsigned char *append_number(unsigned char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (unsigned char)(value | 0x80);
    *to++ = (unsigned char)value;
    return to;
}

void criu_statistics_write(const char *directory, enum criu_statistics kind, const uint64_t *fields,
                           size_t count)
{
    unsigned char inner[DUMP_FIELDS * 11], outer[sizeof(inner) + 16];
    unsigned char *end = inner;
    if (directory == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        end = append_number(append_number(end, (i + 1) << 3), fields[i]); /* the field's number, type 0 */
    unsigned char *message = outer + 12;
    unsigned char *to = append_number(message, (uint64_t)kind << 3 | 2); /* type 2: bytes */
    to = append_number(to, (uint64_t)(end - inner));
    memcpy(to, inner, (size_t)(end - inner));
    to += end - inner;
    const uint32_t head[] = {SERVICE_MAGIC, STATISTICS_MAGIC, (uint32_t)(to - message)};
    memcpy(outer, head, sizeof(head));
    const char *name = kind == CRIU_DUMP ? "stats-dump" : "stats-restore";
    cleanup_fd int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int ret = dir < 0 ? -errno : io_replace_file_at(dir, name, outer, (size_t)(to - outer), 0600);
    if (ret < 0)
        log_debug("write '%s/%s': %s", directory, name, strerror(-ret));
}
