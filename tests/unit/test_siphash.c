/* SipHash-2-4 with 128 bits: the authors' own vectors, and input in pieces of any size. */
#include "base/siphash.h"

#include "unit.h"

/* Key 00 01 … 0f, message 00 01 … n-1: vectors.h of the reference implementation. */
static const struct {
    size_t size;
    uint64_t words[2];
} vectors[] = {
    {0, {UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d)}},
    {1, {UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634)}},
    {8, {UINT64_C(0x61f55862baa9623b), UINT64_C(0xb49714f364e2830f)}},
    {15, {UINT64_C(0x11a8b03399e99354), UINT64_C(0xd9c3cf970fec087e)}},
    {63, {UINT64_C(0x4a83502f77d15051), UINT64_C(0x7cbd3f979a063e50)}},
};

int main(void)
{
    const struct siphash_key key = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    unsigned char message[64];
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct siphash_state s;
        siphash_begin(&s, &key);
        siphash_add(&s, message, vectors[i].size);
        struct siphash hash = siphash_end(&s);
        if (!ok(hash.words[0] == vectors[i].words[0] && hash.words[1] == vectors[i].words[1], "%zu bytes",
                vectors[i].size))
            diag("got %016" PRIx64 " %016" PRIx64, hash.words[0], hash.words[1]);
    }
    struct siphash whole, pieces;
    struct siphash_state s;
    siphash_begin(&s, &key);
    siphash_add(&s, message, sizeof(message));
    whole = siphash_end(&s);
    for (size_t step = 1; step < 20; step++) {
        siphash_begin(&s, &key);
        for (size_t at = 0; at < sizeof(message); at += step)
            siphash_add(&s, message + at, at + step < sizeof(message) ? step : sizeof(message) - at);
        pieces = siphash_end(&s);
        ok(memcmp(&whole, &pieces, sizeof(whole)) == 0, "in pieces of %zu bytes", step);
    }
    return done_testing();
}
