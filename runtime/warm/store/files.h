/* The names of the files that belong to a key, and how they are read: within the store only. */
#ifndef PYSBX_WARM_STORE_FILES_H
#define PYSBX_WARM_STORE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "warm/key.h"

struct arena;

struct store {
    const char *path;
    int dir;
};

enum store_file {
    STORE_SNAPSHOT, /* the snapshot, 0400 */
    STORE_SUM,      /* checksum of the whole image, written before it gets its name */
    STORE_NEW,      /* an image that is being written, under the lock */
    STORE_LOCK,     /* locked by who makes the snapshot, fcntl(2) */
    STORE_USES,     /* one byte a use; the time of the last change is that of the last use */
    STORE_SEEN,     /* a bare interpreter ran once */
    STORE_FAILED,   /* why the snapshot could not be made */
    STORE_STALE,    /* why it did not fit */
    STORE_FILES,
};

/* Is there when no snapshot of a version before 0.2.0 is, all of which are removed: SECURITY.md. */
#define STORE_FORMAT_FILE "format-2"

#define STORE_FILE_NAME_SIZE (KEY_NAME_SIZE + 8)

/* The file's name, in a buffer of the caller. */
const char *store_file_name(const char *key, enum store_file file, char buffer[static STORE_FILE_NAME_SIZE]);

/* The key that a file belongs to; false for another file. */
bool store_file_parse(const char *name, char key[static KEY_NAME_SIZE], enum store_file *file);

/* Is it there, a regular file and the caller's own? */
bool store_file_stat(const struct store *store, const char *key, enum store_file file, struct stat *st);

void store_file_remove(const struct store *store, const char *key, enum store_file file);

/* Replace the file by a text; failure is silent, and leaves an empty file where only the place for the text
 * was missing. */
void store_file_note(const struct store *store, const char *key, enum store_file file, const char *text);

/* The text of such a file, in the arena; NULL when there is none. */
const char *store_file_text(struct arena *a, const struct store *store, const char *key,
                            enum store_file file);

/* Checksum of all the content of a file; 0 or negative errno. */
int store_file_sum(int fd, uint64_t *sum);

/* Take the lock of a key. The descriptor, or negative errno: -EAGAIN when somebody has it and `wait` is
 * false. The lock ends with the process; children of fork(2) do not have it. */
int store_lock(const struct store *store, const char *key, bool wait);
/* Give it up, and remove its file. */
void store_unlock(const struct store *store, const char *key, int *lock);

#endif
