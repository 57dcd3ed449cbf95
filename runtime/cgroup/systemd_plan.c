/* Names of units and the paths of their cgroups: systemd.unit(5), systemd.slice(5). Nothing here connects to
 * systemd. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/libraries.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/text.h"
#include "cgroup/cgroup.h"
#include "cgroup/detect.h"
#include "cgroup/systemd.h"
#include "cgroup/systemd_properties.h"
#include "spec/annotations.h"
#include "spec/spec.h"

#define UNIT_NAME_MAX 255
/* Only systemd writes to the cgroup of a unit. So the container's cgroup is one below the scope, in the
 * delegated tree. */
#define DEFAULT_SUBGROUP "container"

const char *cgroup_systemd_slice_path(struct arena *a, const char *slice)
{
    size_t length = strlen(slice), suffix = strlen(".slice");
    if (strcmp(slice, "-.slice") == 0)
        return "";
    if (length <= suffix || strcmp(slice + length - suffix, ".slice") != 0 || strchr(slice, '/') != NULL)
        return NULL;
    struct text path = {.arena = a};
    for (size_t i = 0; i <= length - suffix; i++) {
        if (i < length - suffix && slice[i] != '-')
            continue;
        /* "-a", "a--b" and "a-" have a part without a name. */
        if (i == 0 || slice[i - 1] == '-')
            return NULL;
        text_add(&path, "/%.*s.slice", (int)i, slice);
    }
    return text_string(&path);
}

/* Replace characters that are not allowed in a unit's name by \xNN. An id may contain "+". */
static const char *escape_unit(struct arena *a, const char *name)
{
    char *out = arena_alloc(a, 4 * strlen(name) + 1), *to = out;
    for (const char *p = name; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                     strchr(":-_.\\@", *p) != NULL;
        if (plain)
            *to++ = *p;
        else
            to += sprintf(to, "\\x%02x", (unsigned char)*p);
    }
    return out;
}

/* Return the caller's user id outside of its user namespace. */
static uint32_t host_uid(void)
{
    uint32_t uid = geteuid();
    cleanup_fd int fd = proc_open("self/uid_map", O_RDONLY, NULL);
    char text[4096];
    ssize_t n = fd >= 0 ? io_read_full(fd, text, sizeof(text) - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        uint32_t inside, outside, size;
        if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32, &inside, &outside, &size) == 3 &&
            uid >= inside && uid - inside < size)
            return outside + (uid - inside);
    }
    return uid;
}

/* Return the cgroup of the user's manager: the one that contains the caller, or else systemd's default. */
static const char *user_manager_path(struct arena *a)
{
    char path[PATH_MAX];
    if (cgroup_detect_path(0, path, NULL) == 0) {
        char *found = strstr(path, "/user@");
        char *end = found != NULL ? strstr(found, ".service") : NULL;
        if (end != NULL && memchr(found + 1, '/', (size_t)(end - found - 1)) == NULL) {
            end[strlen(".service")] = '\0';
            return arena_strdup(a, path);
        }
    }
    uint32_t uid = host_uid();
    return arena_printf(a, "/user.slice/user-%" PRIu32 ".slice/user@%" PRIu32 ".service", uid, uid);
}

/* A rootless runtime asks the user's manager. If there is none, for example for the root of a container that
 * itself runs systemd, it asks the system's. */
static bool has_user_bus(void)
{
    const char *address = getenv("DBUS_SESSION_BUS_ADDRESS"), *dir = getenv("XDG_RUNTIME_DIR");
    char path[PATH_MAX];
    if (address != NULL && address[0] != '\0')
        return true;
    if (dir != NULL && snprintf(path, sizeof(path), "%s/bus", dir) < (int)sizeof(path) &&
        access(path, F_OK) == 0)
        return true;
    return geteuid() != 0 || access("/run/dbus/system_bus_socket", F_OK) < 0;
}

static int systemd_split_path(struct arena *a, const char *path, const char *parts[3], struct error *err)
{
    const char *first = strchr(path, ':'), *second = first != NULL ? strchr(first + 1, ':') : NULL;
    if (second == NULL || strchr(second + 1, ':') != NULL || second[1] == '\0')
        return error_set(err, -EINVAL,
                         "linux.cgroupsPath: '%s' is not of the form slice:prefix:name, which the cgroup "
                         "manager systemd needs",
                         path);
    parts[0] = arena_strndup(a, path, (size_t)(first - path));
    parts[1] = arena_strndup(a, first + 1, (size_t)(second - first - 1));
    parts[2] = second + 1;
    return 0;
}

int cgroup_systemd_plan(struct arena *a, const struct spec *spec, const struct cgroup_options *options,
                        struct cgroup_plan *plan, struct error *err)
{
    /* When the scope is created, it would be too late to begin anew. */
    int ret = libraries_require(err);
    if (ret < 0)
        return ret;
    const char *parts[3] = {"", "pysbx", options->id}, *path = spec->linux_->cgroups_path;
    ret = path != NULL && path[0] != '\0' ? systemd_split_path(a, path, parts, err) : 0;
    if (ret < 0)
        return ret;
    plan->slice = parts[0][0] != '\0' ? parts[0] : options->rootless ? "user.slice" : "system.slice";
    const char *slice_path = cgroup_systemd_slice_path(a, plan->slice);
    if (slice_path == NULL)
        return error_set(err, -EINVAL, "linux.cgroupsPath: '%s' is not the name of a systemd slice",
                         plan->slice);
    plan->ref.scope =
        escape_unit(a, arena_printf(a, "%s%s%s.scope", parts[1], parts[1][0] != '\0' ? "-" : "", parts[2]));
    if (strlen(plan->ref.scope) > UNIT_NAME_MAX)
        return error_set(err, -EINVAL, "'%s' is too long for the name of a systemd unit", plan->ref.scope);
    const char *subgroup = spec_annotation(spec, ANNOTATION_SYSTEMD_SUBGROUP);
    plan->subgroup = subgroup != NULL ? subgroup : DEFAULT_SUBGROUP;
    if (strchr(plan->subgroup, '/') != NULL || plan->subgroup[0] == '.')
        return error_set(err, -EINVAL, "annotation 'run.oci.systemd.subgroup': '%s' is not a plain name",
                         plan->subgroup);
    plan->ref.user_bus = options->rootless && has_user_bus();
    plan->ref.path =
        arena_printf(a, "%s%s/%s%s%s", plan->ref.user_bus ? user_manager_path(a) : "", slice_path,
                     plan->ref.scope, plan->subgroup[0] != '\0' ? "/" : "", plan->subgroup);
    struct systemd_properties *properties = ARENA_NEW(a, struct systemd_properties);
    plan->properties = properties;
    systemd_properties_of_scope(a, arena_printf(a, "OCI container %s", options->id), plan->slice, properties);
    systemd_properties_of_writes(a, &plan->writes, properties);
    return systemd_properties_of_annotations(a, spec, properties, err);
}
