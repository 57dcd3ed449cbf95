/* The parts of validation, one file each, and the small tests they share. For the files of this room only;
 * others call spec_validate, spec_validate_process and spec_validate_resources. */
#ifndef PYSBX_SPEC_VALIDATE_H
#define PYSBX_SPEC_VALIDATE_H

#include <stdbool.h>

struct error;
struct spec;
struct spec_idmaps;
struct spec_process;
struct spec_resources;

/* The linux object: namespaces, mappings, sysctls, devices, … without its resources. */
int validate_linux(const struct spec *spec, struct error *err);
int validate_process(const struct spec_process *process, struct error *err);
int validate_resources(const struct spec_resources *resources, struct error *err);

/* Id mappings as the kernel takes them (user_namespaces(7)); `path` is where the list stands. */
int validate_idmaps(const struct spec_idmaps *maps, const char *path, struct error *err);

/* True for a byte that would end a line or has no place in a name. */
bool has_control_character(const char *s);
/* True for a list of CPUs or nodes as in cpuset(7): "0-3,7". */
bool is_number_list(const char *s);
/* True when a component of the path is "..". */
bool has_dot_dot(const char *path);

#endif
