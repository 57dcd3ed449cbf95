/* The program of a process, in the container's root. */
#pragma once

#include <limits.h>

struct error;

/* Enter the working directory and find the program: `name` itself if it has a slash, or else in the
 * directories of search_path, as execvp(3) would. Write its path into `program`. Return 0, or -ENOENT,
 * -EACCES or another negative errno. The error has the phrases that engines look for (exit codes 126 and
 * 127). */
int program_find(const char *cwd, const char *name, const char *search_path, char program[static PATH_MAX],
                 struct error *err);
