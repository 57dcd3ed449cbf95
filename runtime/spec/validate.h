/* The parts of validation, one file each, and the tests that they share. Only for the files of this room;
 * others call spec_validate, spec_validate_process and spec_validate_resources. A validate function returns 0
 * or -EINVAL, and err begins with the JSON path. */
#pragma once

#include <stdbool.h>

struct error;
struct spec;
struct spec_idmaps;
struct spec_process;
struct spec_resources;

/* Check the linux object without its resources: namespaces, mappings, sysctls, devices and the rest. */
int validate_linux(const struct spec *spec, struct error *err);
int validate_process(const struct spec_process *process, struct error *err);
int validate_resources(const struct spec_resources *resources, struct error *err);

/* Check that the kernel accepts the id mappings (user_namespaces(7)). `path` is the JSON path of the list. */
int validate_idmaps(const struct spec_idmaps *maps, const char *path, struct error *err);

/* Return whether the string contains a control character, such as a newline. */
bool has_control_character(const char *s);
/* Return whether the string is a list of CPUs or nodes as in cpuset(7): "0-3,7". */
bool is_number_list(const char *s);
/* Return whether a component of the path is "..". */
bool has_dot_dot(const char *path);
