/* config.json, and its objects that commands read separately. */
#include "spec/spec.h"
#include "targets.h"

static void check(int ret, const struct error *error, const void *result)
{
    fuzz_check_error(ret, error);
    fuzz_require((ret == 0) == (result != NULL));
}

static void check_text(struct json_text kept, const char *text, size_t size)
{
    bool within = kept.size >= 2 && kept.data >= text && kept.data + kept.size <= text + size;
    fuzz_require(kept.data == NULL || (within && kept.data[0] == '{' && kept.data[kept.size - 1] == '}'));
}

/* config.json, and the seccomp profile from the text kept from it. */
void fuzz_spec(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec *spec = NULL;
    struct spec_seccomp *seccomp;
    const char *text = (const char *)data;
    int ret = spec_parse(&arena, text, size, &spec, &error);
    check(ret, &error, spec);
    if (ret == 0) {
        check_text(spec->linux_->seccomp_text, text, size);
        check_text(spec->linux_->resources_text, text, size);
        if (spec->linux_->seccomp_text.data != NULL)
            (void)spec_parse_seccomp(&arena, spec->linux_->seccomp_text, &seccomp, &error);
        (void)spec_validate(spec, &error);
    }
    arena_free(&arena);
}

/* The process object of exec. */
void fuzz_process(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_process *process = NULL;
    int ret = spec_parse_process(&arena, (const char *)data, size, &process, &error);
    check(ret, &error, process);
    if (ret == 0)
        (void)spec_validate_process(process, &error);
    arena_free(&arena);
}

/* The resources object of update. */
void fuzz_resources(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_resources *resources = NULL;
    int ret = spec_parse_resources(&arena, (const char *)data, size, &resources, &error);
    check(ret, &error, resources);
    if (ret == 0)
        (void)spec_validate_resources(resources, &error);
    arena_free(&arena);
}

void fuzz_seccomp(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_seccomp *seccomp = NULL;
    int ret = spec_parse_seccomp(&arena, (struct json_text){(const char *)data, size}, &seccomp, &error);
    check(ret, &error, seccomp);
    arena_free(&arena);
}
