/* JSON documents that are named on the command line. */
#ifndef PYSBX_CLI_INPUT_H
#define PYSBX_CLI_INPUT_H

#include <stddef.h>

struct arena;
struct error;

/* Read the file, or standard input for "-", into the arena, NUL-terminated. 0 or a negative errno; err names
 * the file and says that it is the `what` ("resources"). */
int input_read(struct arena *a, const char *what, const char *path, char **text, size_t *size,
               struct error *err);

#endif
