/* spec/json.h: valid JSON, invalid JSON with its position, and exact spans. */
#include "base/arena.h"
#include "base/error.h"
#include "spec/json.h"
#include "unit.h"

static struct arena arena;
static struct error error;

static struct json_value *parse_size(const char *text, size_t size, const char *const *opaque)
{
    struct json_value *root = NULL;
    error = (struct error){0};
    return json_parse(&arena, text, size, NULL, opaque, &root, &error) == 0 ? root : NULL;
}

static struct json_value *parse(const char *text)
{
    return parse_size(text, strlen(text), NULL);
}

static void refuses(const char *text, const char *message)
{
    struct json_value *root = parse(text);
    ok(root == NULL, "refused: %.40s", text);
    is_str(error.text, message, "... because: %s", message);
}

static void test_kinds(void)
{
    const struct json_value *root =
        parse("{\"s\":\"a\\n\\u00e9\\/\",\"n\":-12,\"b\":true,\"z\":null,\"a\":[1,[2]],\"o\":{}}");
    if (!ok(root != NULL, "an object of every kind is parsed"))
        return;
    is_int(root->kind, JSON_OBJECT, "the root is an object");
    is_int(root->count, 6, "with its members counted");
    is_str(json_member(root, "s")->text, "a\n\xc3\xa9/", "escapes of a string are decoded");
    is_str(json_member(root, "n")->text, "-12", "a number keeps its text");
    ok(json_member(root, "b")->kind == JSON_BOOL && json_member(root, "b")->boolean, "a boolean");
    ok(json_member(root, "z") == NULL, "null counts as absent");
    ok(json_member(root, "x") == NULL, "an absent member is absent");
    is_int(json_member(root, "a")->first->next->kind, JSON_ARRAY, "an array in an array");
    is_int(json_member(root, "o")->count, 0, "an empty object");
}

static void test_numbers(void)
{
    const struct json_value *root = parse("[18446744073709551615,-9223372036854775808,1.5e3,0]");
    if (!ok(root != NULL, "numbers beyond 64 bits with sign are parsed"))
        return;
    is_str(root->first->text, "18446744073709551615", "the largest unsigned number keeps every digit");
    is_str(root->first->next->text, "-9223372036854775808", "the smallest signed number as well");
    is_str(root->first->next->next->text, "1.5e3", "a fraction stays a text");
}

static void test_spans(void)
{
    static const char text[] =
        " {\n \"a\" : [ 1, \"]\\\"}\" , {\"k\": [ ]} ] ,\"b\":{ } , \"c\" : {\"d\":-1} }\n";
    const struct json_value *root = parse(text);
    if (!ok(root != NULL, "an object with blanks around everything is parsed"))
        return;
    static const struct {
        const char *key, *span;
    } spans[] = {{"a", "[ 1, \"]\\\"}\" , {\"k\": [ ]} ]"}, {"b", "{ }"}, {"c", "{\"d\":-1}"}};
    for (size_t i = 0; i < 3; i++) {
        const struct json_value *v = json_member(root, spans[i].key);
        is_str(arena_strndup(&arena, v->begin, (size_t)(v->end - v->begin)), spans[i].span,
               "the span of '%s' is its bytes, brackets included", spans[i].key);
    }
    is_int(root->begin - text, 1, "the root begins at its bracket");
    is_int(root->end - text, sizeof(text) - 2, "and ends behind it");
}

static void test_opaque(void)
{
    static const char *const path[] = {"linux", "seccomp", NULL};
    static const char text[] = "{\"seccomp\":{\"x\":1},\"linux\":{\"seccomp\":{\"a\":[{\"b\":{}}],\"a\":\"}"
                               "\"},\"after\":{\"seccomp\":{\"y\":2}}}}";
    const struct json_value *root = parse_size(text, strlen(text), path);
    if (!ok(root != NULL, "opaque parts are not parsed, not even for duplicate keys"))
        return;
    const struct json_value *linux_ = json_member(root, "linux");
    const struct json_value *seccomp = json_member(linux_, "seccomp");
    is_int(seccomp->count, 0, "the opaque object has no children");
    is_str(arena_strndup(&arena, seccomp->begin, (size_t)(seccomp->end - seccomp->begin)),
           "{\"a\":[{\"b\":{}}],\"a\":\"}\"}", "its span is exact");
    is_int(json_member(json_member(linux_, "after"), "seccomp")->count, 1,
           "the same key elsewhere below is an ordinary object");
    is_int(json_member(root, "seccomp")->count, 1, "and above");
    ok(parse_size("{\"linux\":{\"seccomp\":{\"a\":}}}", 29, path) == NULL,
       "the opaque part must still be JSON");
}

static void test_paths(void)
{
    const struct json_value *root =
        parse("{\"mounts\":[0,{\"options\":[\"a\",\"b\"]}],\"annotations\":{\"a.b\":1,\"\":2}}");
    const struct json_value *options = json_member(json_member(root, "mounts")->last, "options");
    is_str(json_path(&arena, root), "", "the root has no path");
    is_str(json_path(&arena, options), "mounts[1].options", "members are joined by dots");
    is_str(json_path(&arena, options->last), "mounts[1].options[1]", "elements by their index");
    const struct json_value *annotations = json_member(root, "annotations");
    is_str(json_path(&arena, annotations->first), "annotations[\"a.b\"]",
           "a key that is not a plain word is quoted");
    is_str(json_path(&arena, annotations->last), "annotations[\"\"]", "an empty key too");

    struct json_value *named = NULL;
    json_parse(&arena, "[[1]]", 5, "linux.seccomp", NULL, &named, NULL);
    is_str(json_path(&arena, named->first->first), "linux.seccomp[0][0]", "a named root begins the path");
}

static void test_refusals(void)
{
    refuses("", "empty");
    refuses(" \n\t ", "empty");
    refuses("{\n\"a\":1,\n}", "line 3: parse error: invalid object key (must be a string)");
    refuses("{\"a\":1", "line 1: parse error: premature EOF");
    refuses("{}\n{}", "line 2: parse error: trailing garbage");
    refuses("{} x", "line 1: parse error: trailing garbage");
    refuses("{\"a\":x}", "line 1: lexical error: invalid char in json text");
    refuses("{\"a\":01}", "line 1: parse error: after key and value, inside map, I expect ',' or '}'");
    refuses("[1] // no comments", "line 1: parse error: trailing garbage");
    refuses("{\"a\":{\"b\":1,\"c\":2,\"b\":3}}", "a.b: given twice");
    refuses("{\"a\":1,\"\\u0061\":2}", "a: given twice");
    refuses("{\"a\":[\"x\",\"y\\u0000z\"]}", "a[1]: contains a NUL character");
    refuses("{\"a\":{\"b\\u0000\":1}}", "a: a key contains a NUL character");
    refuses("{\"\\u0000\":1}", "a key contains a NUL character");
    refuses("[\"\xff\"]", "line 1: lexical error: invalid bytes in UTF8 string");
    ok(parse_size("{}\0", 3, NULL) == NULL, "a NUL byte after the value is refused");
    ok(parse_size("[\"a\0b\"]", 7, NULL) == NULL, "a NUL byte within a string is refused");
}

/* '[' n times, then ']' n times. */
static char *nested(size_t n)
{
    char *text = arena_alloc(&arena, 2 * n + 1);
    memset(text, '[', n);
    memset(text + n, ']', n);
    return text;
}

/* An array of n numbers. */
static char *ones(size_t n)
{
    char *text = arena_alloc(&arena, 2 * n + 2), *end = text;
    for (size_t i = 0; i < n; i++) {
        *end++ = i == 0 ? '[' : ',';
        *end++ = '1';
    }
    *end = ']';
    return text;
}

static void test_limits(void)
{
    ok(parse(nested(JSON_DEPTH_MAX)) != NULL, "%d levels are parsed", JSON_DEPTH_MAX);
    refuses(nested(JSON_DEPTH_MAX + 1), "line 1: nested more than 64 levels deep");
    static const char *const path[] = {"s", NULL};
    char *deep = arena_printf(&arena, "{\"s\":{\"x\":%s}}", nested(JSON_DEPTH_MAX));
    ok(parse_size(deep, strlen(deep), path) == NULL, "depth counts within an opaque value");

    ok(parse(ones(JSON_NODES_MAX - 1)) != NULL, "%zu values are parsed", JSON_NODES_MAX);
    refuses(ones(JSON_NODES_MAX), "line 1: more than 262144 values");

    char *large = calloc(1, JSON_SIZE_MAX + 2);
    memset(large, ' ', JSON_SIZE_MAX + 1);
    ok(parse_size(large, JSON_SIZE_MAX + 1, NULL) == NULL, "a text of more than 16 MiB is refused");
    is_str(error.text, "longer than 16777216 bytes", "... because of its size");
    free(large);
}

static void test_many_keys(void)
{
    char *text = arena_alloc(&arena, 200000), *end = text;
    *end++ = '{';
    for (int i = 0; i < 10000; i++)
        end += sprintf(end, "\"k%d\":%d,", i, i);
    char *last = end;
    sprintf(last, "\"k10000\":0}");
    ok(parse(text) != NULL, "an object of ten thousand members is parsed");
    sprintf(last, "\"k5000\":0}");
    refuses(text, "k5000: given twice");
}

int main(void)
{
    test_kinds();
    test_numbers();
    test_spans();
    test_opaque();
    test_paths();
    test_refusals();
    test_limits();
    test_many_keys();
    arena_free(&arena);
    return done_testing();
}
