/* sandbox/mount/options.h: the known mount options and their combinations. */
#include <errno.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/sys.h"
#include "sandbox/mount/options.h"
#include "spec/spec.h"
#include "unit.h"

static struct arena arena;
static struct error error;

/* Read "a,b,c" as the options of a mount. */
static struct mount_options parse(const char *text)
{
    struct mount_options options;
    char *copy = arena_strdup(&arena, text), *save = NULL;
    struct str_list words = {.items = ARENA_ARRAY(&arena, strlen(text) + 1, const char *)};
    for (char *word = strtok_r(copy, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save))
        words.items[words.count++] = word;
    if (mount_options_parse(&arena, &words, &options, &error) < 0)
        bail_out("%s: %s", text, error.text);
    return options;
}

static const char *describe(const char *text)
{
    struct mount_options options = parse(text);
    cleanup_json_out struct json_out *out = json_out_new(false);
    mount_options_describe(&options, out);
    return arena_strdup(&arena, json_out_text(out, NULL));
}

static void test_vocabulary(void)
{
    size_t count, known = 0;
    const char *const *words = mount_options_words(&count);
    bool sorted = true;
    for (size_t i = 1; i < count; i++)
        sorted = sorted && strcmp(words[i - 1], words[i]) < 0;
    ok(sorted, "the options are sorted and unique");
    for (size_t i = 0; i < count; i++)
        known += parse(words[i]).data_count == 0;
    is_int(known, count, "every word of the vocabulary is found in it");
    const char *const asked[] = {"bind",      "rbind",        "rro",   "rnosymfollow",
                                 "tmpcopyup", "copy-symlink", "ridmap"};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        is_int(parse(asked[i]).data_count, 0, "'%s' is a word", asked[i]);
}

static void test_attributes(void)
{
    struct mount_options o = parse("ro,nosuid,nodev,noexec,nodiratime,nosymfollow");
    is_int(o.attrs.set,
           MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
               MOUNT_ATTR_NODIRATIME | MOUNT_ATTR_NOSYMFOLLOW,
           "attributes of the mount");
    is_int(o.recursive.set, 0, "… are not recursive");
    o = parse("ro,rw");
    ok(o.attrs.set == 0 && o.attrs.clear == MOUNT_ATTR_RDONLY, "of 'ro,rw' the later word counts");
    o = parse("rw,ro");
    ok(o.attrs.set == MOUNT_ATTR_RDONLY && o.attrs.clear == 0, "of 'rw,ro' the later word counts");
    o = parse("rro,rnosuid,rdev");
    ok(o.recursive.set == (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID) && o.recursive.clear == MOUNT_ATTR_NODEV &&
           o.attrs.set == 0,
       "r-forms are recursive attributes");
    o = parse("noatime");
    ok(o.attrs.set == MOUNT_ATTR_NOATIME && o.attrs.clear == MOUNT_ATTR__ATIME,
       "an access time option clears the whole group, as mount_setattr(2) demands");
    o = parse("noatime,strictatime");
    is_int(o.attrs.set, MOUNT_ATTR_STRICTATIME, "access time options replace each other");
    o = parse("noatime,nostrictatime");
    ok(o.attrs.set == 0 && o.attrs.clear == MOUNT_ATTR__ATIME, "nostrictatime is the default, relatime");
    is_int(parse("sync,dirsync,nomand").super, MS_SYNCHRONOUS | MS_DIRSYNC, "options of the superblock");
}

static void test_flags(void)
{
    is_int(parse("bind").flags, MOUNT_FLAG_BIND, "bind");
    is_int(parse("rbind").flags, MOUNT_FLAG_BIND | MOUNT_FLAG_RECURSIVE, "rbind is a recursive bind");
    struct mount_options o = parse("rbind,rprivate,rslave");
    ok(o.propagation == MS_SLAVE && o.propagation_recursive, "the last propagation counts");
    ok(!parse("shared").propagation_recursive, "shared without r is not recursive");
    o = parse("idmap=uids=0-1-2;gids=0-1-2");
    is_str(o.idmap, "uids=0-1-2;gids=0-1-2", "idmap with a mapping of its own");
    is_int(o.flags, MOUNT_FLAG_IDMAP, "… sets the flag to map");
    ok(parse("ridmap").flags == (MOUNT_FLAG_IDMAP | MOUNT_FLAG_IDMAP_RECURSIVE) &&
           parse("ridmap").idmap == NULL,
       "ridmap without one");
    unsigned long flag;
    bool recursive;
    ok(mount_options_propagation("runbindable", &flag, &recursive) && flag == MS_UNBINDABLE && recursive,
       "a propagation word");
    ok(!mount_options_propagation("ro", &flag, &recursive), "ro is no propagation");
}

static void test_data(void)
{
    struct mount_options o = parse("mode=755,nosuid,size=64k,newinstance,x=a=b");
    is_int(o.data_count, 4, "unknown options are data for the file system");
    is_str(mount_options_data(&o, "size"), "64k", "a value");
    is_str(mount_options_data(&o, "x"), "a=b", "only the first '=' separates");
    ok(mount_options_data(&o, "newinstance") == NULL, "a flag has no value");
    ok(mount_options_data(&o, "none") == NULL, "an option that is not there");
    struct mount_options out;
    const char *empty = "", *no_key = "=x";
    ok(mount_options_parse(&arena, &(struct str_list){&empty, 1}, &out, &error) == 0 && out.data_count == 0,
       "an empty option, as Podman gives it, says nothing");
    is_int(mount_options_parse(&arena, &(struct str_list){&no_key, 1}, &out, &error), -EINVAL,
           "a value without a key is refused");
}

static void test_description(void)
{
    is_str(describe("rbind,rprivate,nosuid,ro"), "[\"nosuid\",\"rbind\",\"ro\",\"rprivate\"]",
           "description: words in order, rbind for both");
    is_str(describe("noatime,mode=1777"), "[\"noatime\",\"mode=1777\"]", "description: data last");
    is_str(describe("atime"), "[\"relatime\"]", "description: atime means relatime");
    is_str(describe("defaults"), "[]", "description: defaults say nothing");
}

int main(void)
{
    test_vocabulary();
    test_attributes();
    test_flags();
    test_data();
    test_description();
    arena_free(&arena);
    return done_testing();
}
