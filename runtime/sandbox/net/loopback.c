/* Set up the loopback device. */
#include "sandbox/net/loopback.h"

#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

int loopback_up(struct error *err)
{
    /* Device ioctls belong to no protocol, and a kernel without IPv4 has this one. */
    cleanup_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, -errno, "open a socket for the loopback device");
    /* A new namespace's loopback has no other flag that this could clear. */
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return error_set(err, -errno, "set the loopback device up");
    return 0;
}
