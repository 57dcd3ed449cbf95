/* container/record.h: a damaged record is an error with the position. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "container/record.h"
#include "unit.h"

#define NEEDED "id c1\noci-version 1.2.0\nbundle /b\ncreated now\n"

static struct arena arena;
static struct error error;

static int parse(const char *text, struct record *out)
{
    error = (struct error){0};
    return record_parse(&arena, arena_strdup(&arena, text), out, &error);
}

static void test_numbers(void)
{
    struct record record;
    ok(parse(NEEDED "pid 17\nstart-time 18446744073709551615\n", &record) == 0 && record.pid == 17 &&
           record.start_time == UINT64_MAX,
       "numbers are read");
    is_int(parse(NEEDED "pid 4294967297\n", &record), -EINVAL, "a pid that would become another is refused");
    is_str(error.text, "the container's state record has a bad 'pid'", "… and named");
    is_int(parse(NEEDED "pid -2147483649\n", &record), -EINVAL, "as is one below all");
    is_int(parse(NEEDED "owner 4294967296\n", &record), -EINVAL, "a user that would become root is refused");
    is_int(parse(NEEDED "start-time 1x\n", &record), -EINVAL, "digits only");
}

static void test_lines(void)
{
    struct record record;
    ok(parse("oci-version 1\nbundle /b\ncreated now\nannotation k\nvalue a\\nb\\\\\nid c1", &record) == 0,
       "the last line needs no newline");
    is_str(record.id, "c1", "… and counts");
    ok(record.annotations.count == 1, "one annotation");
    is_str(record.annotations.items[0].value, "a\nb\\", "escapes are undone");
    is_int(parse("id", &record), -EINVAL, "a line without a value is refused");
    is_int(parse("id c1\n", &record), -EINVAL, "a record that is not complete is refused");
    is_int(parse("", &record), -EINVAL, "as is an empty one");
}

int main(void)
{
    test_numbers();
    test_lines();
    arena_free(&arena);
    return done_testing();
}
