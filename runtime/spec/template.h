/* The config.json that `pysbx-runtime spec` writes. */
#pragma once

#include <stdbool.h>

struct json_out;

/* Write a configuration for a bundle with its root file system in "rootfs": a shell on a terminal, three
 * capabilities, no new privileges, all namespaces new. rootless: with a user namespace that maps the caller
 * to root, the host's network (a new network would not be connected), and no device rules. */
void spec_template_write(struct json_out *out, bool rootless);
