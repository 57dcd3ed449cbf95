/* Strings of a container in messages: control characters, and those that change the order in which a terminal
 * shows text (Unicode Standard Annex 9). */
#include "base/arena.h"
#include "base/str.h"
#include "unit.h"

/* NOLINTBEGIN(misc-misleading-bidirectional): these are what is tested */
static const struct {
    const char *in, *out;
} samples[] = {
    {"plain \xc3\xa4 \xe2\x82\xac \xe2\x80\xa6", "plain \xc3\xa4 \xe2\x82\xac \xe2\x80\xa6"},
    {"a\x1b[2Jb\r\n\t\x7f", "a\\x1b[2Jb\\x0d\\x0a\\x09\\x7f"},
    {"\\x1b", "\\x1b"},
    {"\xe2\x80\xae"
     "gpj.exe",
     "\\u202egpj.exe"},
    {"\xe2\x80\xaa\xe2\x80\xab\xe2\x80\xac\xe2\x80\xad", "\\u202a\\u202b\\u202c\\u202d"},
    {"\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9", "\\u2066\\u2067\\u2068\\u2069"},
    {"\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c"},
    {"\xc2\x9b", "\\u009b"},
    /* Their neighbours. */
    {"\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b\xc2\xa0",
     "\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b\xc2\xa0"},
    {"\xf0\x9f\x90\x8d", "\xf0\x9f\x90\x8d"},
    /* Truncated characters, and bytes that an 8-bit terminal takes for C1 controls. */
    {"\xe2\x80", "\\xe2\\x80"},
    {"\xd8", "\\xd8"},
    {"a\x9b"
     "2J",
     "a\\x9b2J"},
    {"\xc0\x9b", "\\xc0\\x9b"},
};

int main(void)
{
    struct arena a = {0};
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        is_str(str_printable(&a, samples[i].in), samples[i].out, "sample %zu", i);
    char small[8];
    str_escape_hidden(small, sizeof(small), "a\xe2\x80\xae\xe2\x80\xae");
    is_str(small, "a\\u202e", "an escape that does not fit is left out whole");
    arena_free(&a);
    return done_testing();
}
/* NOLINTEND(misc-misleading-bidirectional) */
