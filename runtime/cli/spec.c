/* spec: write a configuration to start from. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/json_out.h"
#include "cli/commands.h"
#include "spec/template.h"

struct spec_values {
    const char *bundle;
    bool rootless;
};

static const struct option options[] = {
    {"bundle", 'b', OPTION_STRING, offsetof(struct spec_values, bundle), "DIR",
     "directory for config.json (default: the working directory)", NULL},
    {"rootless", 0, OPTION_FLAG, offsetof(struct spec_values, rootless), NULL,
     "write it for a container of an unprivileged user", NULL},
    {0},
};

static int write_config(const char *bundle, const char *text, size_t size, struct error *err)
{
    cleanup_fd int dir = open(bundle, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set(err, -errno, "open bundle '%s'", bundle);
    cleanup_fd int fd = openat(dir, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set(err, -errno, "make 'config.json' in '%s'", bundle);
    int ret = io_write_full(fd, text, size);
    if (ret == 0)
        ret = io_write_full(fd, "\n", 1);
    return ret < 0 ? error_set(err, ret, "write 'config.json' in '%s'", bundle) : 0;
}

static int spec_run(struct invocation *invocation, void *values, struct error *err)
{
    (void)invocation;
    const struct spec_values *spec = values;
    cleanup_json_out struct json_out *out = json_out_new(true);
    spec_template_write(out, spec->rootless);
    size_t size = 0;
    const char *text = json_out_text(out, &size);
    if (text == NULL)
        return error_set(err, -ENOMEM, "write the configuration");
    return write_config(spec->bundle != NULL ? spec->bundle : ".", text, size, err);
}

const struct command command_spec = {
    .name = "spec",
    .arguments = "",
    .summary = "write a config.json to start from",
    .options = options,
    .values_size = sizeof(struct spec_values),
    .run = spec_run,
};
