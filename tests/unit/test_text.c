/* Strings that grow: lists and long texts, whose outgrown copies take bounded memory. */
#include "base/arena.h"
#include "base/text.h"
#include "unit.h"

#define NUMBERS 10000

int main(void)
{
    struct arena a = {0};
    struct text empty = {.arena = &a};
    is_str(text_string(&empty), "", "a new text is the empty string");
    text_separate(&empty, ",");
    is_str(text_string(&empty), "", "no separator before the first item");
    text_add(&empty, "%s", "");
    is_str(text_string(&empty), "", "the empty string added to the empty string");

    struct text list = {.arena = &a};
    for (int i = 1; i <= 3; i++) {
        text_separate(&list, ", ");
        text_add(&list, "item %d", i);
    }
    is_str(text_string(&list), "item 1, item 2, item 3", "separators between items only");
    text_add(&list, " and %.*s", 2, "more");
    is_str(text_string(&list), "item 1, item 2, item 3 and mo", "formats of printf(3)");

    for (size_t length = 1; length < 300; length++) {
        struct text one = {.arena = &a};
        char filled[300] = {0};
        memset(filled, 'x', length);
        text_add(&one, "%s", filled);
        text_add(&one, "%c", 'y');
        if (strlen(text_string(&one)) != length + 1 || strncmp(text_string(&one), filled, length) != 0 ||
            text_string(&one)[length] != 'y')
            ok(false, "an addition of %zu bytes", length);
    }

    struct text numbers = {.arena = &a};
    for (int i = 0; i < NUMBERS; i++)
        text_add(&numbers, "%d\n", i);
    const char *p = text_string(&numbers);
    int i = 0;
    for (char *end; *p != '\0' && strtol(p, &end, 10) == i && *end == '\n'; p = end + 1)
        i++;
    is_int(i, NUMBERS, "every addition to a long text is there, in order");
    is_int(*p, '\0', "and nothing after the last one");
    is_int(numbers.length, strlen(text_string(&numbers)), "the length is that of the string");
    ok(numbers.room <= 3 * numbers.length, "a long text has at most three times the room that it needs");
    arena_free(&a);
    return done_testing();
}
