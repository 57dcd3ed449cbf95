/* Two rounds for each word, four at the end. Words are in memory with the lowest byte first, as on all
 * supported machines. */
#include "base/siphash.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void siphash_mix(uint64_t v[static 4], unsigned rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void add_word(struct siphash_state *s, uint64_t word)
{
    s->v[3] ^= word;
    siphash_mix(s->v, 2);
    s->v[0] ^= word;
}

void siphash_begin(struct siphash_state *s, const struct siphash_key *key)
{
    *s = (struct siphash_state){.v = {UINT64_C(0x736f6d6570736575) ^ key->words[0],
                                      UINT64_C(0x646f72616e646f6d) ^ key->words[1] ^ 0xee,
                                      UINT64_C(0x6c7967656e657261) ^ key->words[0],
                                      UINT64_C(0x7465646279746573) ^ key->words[1]}};
}

void siphash_add(struct siphash_state *s, const void *data, size_t size)
{
    const unsigned char *p = data;
    size_t have = s->size % sizeof(s->tail);
    uint64_t word;
    s->size += size;
    if (have > 0) {
        size_t missing = sizeof(s->tail) - have, n = size < missing ? size : missing;
        memcpy(s->tail + have, p, n);
        if (n < missing)
            return;
        memcpy(&word, s->tail, sizeof(word));
        add_word(s, word);
        p += n;
        size -= n;
    }
    for (; size >= sizeof(word); p += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        add_word(s, word);
    }
    memcpy(s->tail, p, size);
}

struct siphash siphash_end(struct siphash_state *s)
{
    struct siphash out;
    uint64_t last = s->size << 56;
    for (size_t i = 0; i < s->size % sizeof(s->tail); i++)
        last |= (uint64_t)s->tail[i] << (8 * i);
    add_word(s, last);
    s->v[2] ^= 0xee;
    siphash_mix(s->v, 4);
    out.words[0] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
    s->v[1] ^= 0xdd;
    siphash_mix(s->v, 4);
    out.words[1] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
    return out;
}
