/* The names of the files that belong to a key, and how they are read. Private to the store. */
#pragma once

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
    STORE_SNAPSHOT,      /* the snapshot, 0400 */
    STORE_SUM,           /* checksum of the whole snapshot, written before it gets its name */
    STORE_NEW,           /* a snapshot that is being written, under the lock */
    STORE_LOCK,          /* locked by the process that makes the snapshot, fcntl(2) */
    STORE_USES,          /* one byte for each use; the time of the last change is that of the last use */
    STORE_SEEN,          /* a bare interpreter ran once */
    STORE_FAILED,        /* why the snapshot could not be made, and on the next line the name of the kind */
    STORE_STALE,         /* why it did not fit */
    STORE_FAILED_LIMITS, /* the limits with which it could not be made: struct store_bounds */
    STORE_FILES,
};

/* This file exists if there is no snapshot of a version before 0.2.0, all of which are removed:
 * SECURITY.md. */
#define STORE_FORMAT_FILE "format-2"

#define STORE_FILE_NAME_SIZE (KEY_NAME_SIZE + 8)

/* Write the file's name to a buffer of the caller and return it. */
const char *store_file_name(const char *key, enum store_file file, char buffer[static STORE_FILE_NAME_SIZE]);

/* Parse the key that a file belongs to; return false for any other file. */
bool store_file_parse(const char *name, char key[static KEY_NAME_SIZE], enum store_file *file);

/* Return whether the file exists, is regular and is owned by the caller. */
bool store_file_stat(const struct store *store, const char *key, enum store_file file, struct stat *st);

void store_file_remove(const struct store *store, const char *key, enum store_file file);

/* Replace the file with a text. Failure is silent, and leaves an empty file if only the space for the text
 * was missing. */
void store_file_note(const struct store *store, const char *key, enum store_file file, const char *text);

/* Read the text of such a file into the arena; return NULL if there is none. */
const char *store_file_text(struct arena *a, const struct store *store, const char *key,
                            enum store_file file);

/* Compute the checksum of a file's whole content; return 0 or negative errno. */
int store_file_sum(int fd, uint64_t *sum);

/* Take the lock of a key. Return the descriptor, or negative errno: -EAGAIN if another process holds it and
 * `wait` is false. The lock ends with the process; children of fork(2) do not have it. */
int store_lock(const struct store *store, const char *key, bool wait);
/* Release the lock and remove its file. */
void store_unlock(const struct store *store, const char *key, int *lock);
