/* The options of exec that change the container's process object into that of the new process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spec/spec.h"

struct arena;
struct error;

struct exec_process_options {
    bool tty, no_new_privs;
    const char *user, *cwd, *process_label, *apparmor;
    struct str_list env;             /* NAME=VALUE */
    struct str_list caps;            /* names, with or without "CAP_" */
    struct str_list additional_gids; /* numbers, or lists separated by commas */
};

/* Parse "UID" or "UID:GID", in decimal digits. Names are refused, because they would have to be looked up in
 * files of the container, and unknown input must never become 0 (CVE-2026-30892). *gid does not change if no
 * group is given. 0 or -EINVAL with err filled. */
int exec_process_parse_user(const char *text, uint32_t *uid, uint32_t *gid, struct error *err);

/* Apply the options to `process`: user and groups, environment, directory, capabilities, labels. A variable
 * that exists is replaced. Capabilities are added to the bounding, effective and permitted sets only, because
 * an inheritable one would survive execve of any program (CVE-2022-29162). Lists that grow are copied into
 * the arena. 0 or -EINVAL with err filled. */
int exec_process_apply(struct arena *a, const struct exec_process_options *options,
                       struct spec_process *process, struct error *err);
