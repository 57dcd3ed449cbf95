/* The document as a whole: version, root, mounts, hooks, annotations, and the order in which the parts are
 * checked. */
#include "spec/validate.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/spec.h"

bool has_control_character(const char *s)
{
    for (; *s != '\0'; s++)
        if (iscntrl((unsigned char)*s))
            return true;
    return false;
}

/* Parse decimal digits that fit a CPU or node number. Return their end, or NULL if there are none. */
static const char *validate_read_number(const char *s, unsigned *number)
{
    if (!isdigit((unsigned char)*s))
        return NULL;
    for (*number = 0; isdigit((unsigned char)*s); s++) {
        *number = *number * 10 + (unsigned)(*s - '0');
        if (*number > UINT16_MAX)
            return NULL;
    }
    return s;
}

bool is_number_list(const char *s)
{
    for (;; s++) {
        unsigned first, last;
        s = validate_read_number(s, &first);
        if (s != NULL && *s == '-') {
            s = validate_read_number(s + 1, &last);
            if (s != NULL && last < first)
                return false;
        }
        if (s == NULL || (*s != ',' && *s != '\0'))
            return false;
        if (*s == '\0')
            return true;
    }
}

bool has_dot_dot(const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += n;
        path += *path == '/';
    }
    return false;
}

/* Semantic versioning 2.0.0: three numbers, and optionally a pre-release or build. */
static int validate_version(const char *version, struct error *err)
{
    const char *s = version;
    for (int part = 0; part < 3; part++) {
        size_t digits = strspn(s, "0123456789");
        bool last = part == 2;
        if (digits == 0 || (!last && s[digits] != '.') || (last && strchr("-+", s[digits]) == NULL))
            return error_set(err, -EINVAL, "ociVersion: '%s' is not a version", version);
        s += digits + !last;
    }
    if (str_after(version, "1.") == NULL)
        return error_set(err, -EINVAL, "ociVersion: version '%s' is not supported, only 1.x.y is", version);
    return 0;
}

static int validate_mount(const struct spec_mount *m, size_t index, struct error *err)
{
    char path[64];
    static const char *const names[] = {"uidMappings", "gidMappings"};
    const struct spec_idmaps *maps[] = {&m->uid_mappings, &m->gid_mappings};
    for (size_t i = 0; i < 2; i++) {
        if (maps[i]->count > 0 && maps[!i]->count == 0)
            return error_set(err, -EINVAL, "mounts[%zu]: %s needs %s", index, names[i], names[!i]);
        snprintf(path, sizeof(path), "mounts[%zu].%s", index, names[i]);
        int ret = validate_idmaps(maps[i], path, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int validate_hook_list(const struct spec_hook_list *list, const char *kind, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct spec_hook *hook = &list->items[i];
        if (hook->path[0] != '/')
            return error_set(err, -EINVAL, "hooks.%s[%zu].path: '%s' is not an absolute path", kind, i,
                             hook->path);
        for (size_t j = 0; j < hook->env.count; j++)
            if (strchr(hook->env.items[j], '=') == NULL || hook->env.items[j][0] == '=')
                /* Without its text, which may be a secret that lost its name. */
                return error_set(err, -EINVAL, "hooks.%s[%zu].env[%zu]: not of the form name=value", kind, i,
                                 j);
    }
    return 0;
}

static int validate_hooks(const struct spec_hooks *hooks, struct error *err)
{
    const struct {
        const char *kind;
        const struct spec_hook_list *list;
    } lists[] = {
        {"prestart", &hooks->prestart},
        {"createRuntime", &hooks->create_runtime},
        {"createContainer", &hooks->create_container},
        {"startContainer", &hooks->start_container},
        {"poststart", &hooks->poststart},
        {"poststop", &hooks->poststop},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        int ret = validate_hook_list(lists[i].list, lists[i].kind, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int validate_annotations(const struct str_map *annotations, struct error *err)
{
    for (size_t i = 0; i < annotations->count; i++)
        if (annotations->items[i].key[0] == '\0')
            return error_set(err, -EINVAL, "annotations: a key is empty");
    return 0;
}

static int validate_document(const struct spec *spec, struct error *err)
{
    int ret = validate_version(spec->oci_version, err);
    if (ret < 0)
        return ret;
    if (spec->root == NULL)
        return error_set(err, -EINVAL, "'root' is missing");
    for (size_t i = 0; i < spec->mounts.count; i++) {
        ret = validate_mount(&spec->mounts.items[i], i, err);
        if (ret < 0)
            return ret;
    }
    ret = validate_hooks(&spec->hooks, err);
    if (ret < 0)
        return ret;
    ret = validate_annotations(&spec->annotations, err);
    if (ret < 0)
        return ret;
    ret = spec->process != NULL ? validate_process(spec->process, err) : 0;
    if (ret < 0)
        return ret;
    ret = validate_linux(spec, err);
    if (ret < 0)
        return ret;
    return spec->linux_->resources != NULL ? validate_resources(spec->linux_->resources, err) : 0;
}

int spec_validate(const struct spec *spec, struct error *err)
{
    int ret = validate_document(spec, err);
    return ret < 0 ? error_wrap(err, "config.json") : 0;
}

int spec_validate_process(const struct spec_process *process, struct error *err)
{
    return validate_process(process, err);
}

int spec_validate_resources(const struct spec_resources *resources, struct error *err)
{
    return validate_resources(resources, err);
}
