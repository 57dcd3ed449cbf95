/* A fast hash of bytes, for names and to detect accidental changes. It does not protect against content that
 * an attacker chooses. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t a, b;
};

/* Return the hash of `size` bytes. */
struct hash hash_bytes(const void *data, size_t size);

#define HASH_NAME_SIZE 33 /* 32 hexadecimal digits and NUL */

/* Write the hash as a file name. */
void hash_name(struct hash hash, char name[HASH_NAME_SIZE]);
