/* SipHash-2-4 with 128 bits: a keyed hash, for content that an attacker may choose. Without the key, two
 * contents have the same hash only by accident, and no content can be tried out against a hash. Aumasson and
 * Bernstein, "SipHash: a fast short-input PRF", 2012; the variant with 128 bits is the authors' own. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t words[2]; /* of 8 bytes, the lowest byte first */
};

struct siphash {
    uint64_t words[2];
};

struct siphash_state {
    uint64_t v[4];
    uint64_t size;         /* bytes added */
    unsigned char tail[8]; /* the bytes of the last, incomplete word */
};

/* Begin a hash, add content to it in parts of any size, and return the result. */
void siphash_begin(struct siphash_state *s, const struct siphash_key *key);
void siphash_add(struct siphash_state *s, const void *data, size_t size);
struct siphash siphash_end(struct siphash_state *s);
