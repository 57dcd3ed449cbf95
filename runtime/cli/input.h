/* Read JSON documents that the command line names. */
#pragma once

#include <stddef.h>

struct arena;
struct error;

/* Read the file, or standard input for "-", into the arena, NUL-terminated. It may be a pipe. Return 0 or a
 * negative errno; err names the file and its purpose `what` ("resources"). */
int input_read(struct arena *a, const char *what, const char *path, char **text, size_t *size,
               struct error *err);
