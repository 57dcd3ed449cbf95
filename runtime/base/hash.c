/* Two lanes of multiply and shift over words of eight bytes: fast, and good enough for a name. */
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

static void hash_mix(struct hash *h, const uint64_t words[2])
{
    h->a = (h->a ^ words[0]) * UINT64_C(0xff51afd7ed558ccd);
    h->a ^= h->a >> 32;
    h->b = (h->b ^ words[1]) * UINT64_C(0xc4ceb9fe1a85ec53);
    h->b ^= h->b >> 29;
}

struct hash hash_bytes(const void *data, size_t size)
{
    const unsigned char *p = data;
    struct hash h = {UINT64_C(0x9e3779b97f4a7c15) ^ size, UINT64_C(0xc2b2ae3d27d4eb4f) + size};
    uint64_t words[2];
    for (; size >= sizeof(words); p += sizeof(words), size -= sizeof(words)) {
        memcpy(words, p, sizeof(words)); /* a constant size: two loads, no call */
        hash_mix(&h, words);
    }
    if (size > 0) {
        memset(words, 0, sizeof(words));
        memcpy(words, p, size);
        hash_mix(&h, words);
    }
    h.a ^= h.b * UINT64_C(0x9fb21c651e98df25);
    h.b ^= h.a >> 31;
    return h;
}

void hash_name(struct hash hash, char name[HASH_NAME_SIZE])
{
    snprintf(name, HASH_NAME_SIZE, "%016llx%016llx", (unsigned long long)hash.a, (unsigned long long)hash.b);
}
