/* What is fuzzed: each function takes any bytes, and aborts when the parser breaks its promises. To libFuzzer
 * they go by fuzz.c, over the seeds by test_seeds.c. */
#ifndef PYSBX_TESTS_FUZZ_TARGETS_H
#define PYSBX_TESTS_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "spec/annotations.h"
#include "spec/policy.h"
#include "spec/spec.h"

/* Every failure has a text, every success a result. */
static inline void fuzz_check(int ret, const struct error *error, const void *result)
{
    if ((ret < 0) != (error->text[0] != '\0') || (ret == 0) != (result != NULL))
        abort();
}

static inline void fuzz_check_text(struct json_text kept, const char *text, size_t size)
{
    bool within = kept.size >= 2 && kept.data >= text && kept.data + kept.size <= text + size;
    if (kept.data != NULL && (!within || kept.data[0] != '{' || kept.data[kept.size - 1] != '}'))
        abort();
}

/* config.json, and the seccomp profile from the text that was kept of it. */
static inline void fuzz_spec(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec *spec = NULL;
    struct spec_seccomp *seccomp;
    const char *text = (const char *)data;
    int ret = spec_parse(&arena, text, size, &spec, &error);
    fuzz_check(ret, &error, spec);
    if (ret == 0) {
        fuzz_check_text(spec->linux_->seccomp_text, text, size);
        fuzz_check_text(spec->linux_->resources_text, text, size);
        if (spec->linux_->seccomp_text.data != NULL)
            (void)spec_parse_seccomp(&arena, spec->linux_->seccomp_text, &seccomp, &error);
        (void)spec_validate(spec, &error);
    }
    arena_free(&arena);
}

/* The process object of exec. */
static inline void fuzz_process(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_process *process = NULL;
    int ret = spec_parse_process(&arena, (const char *)data, size, &process, &error);
    fuzz_check(ret, &error, process);
    if (ret == 0)
        (void)spec_validate_process(process, &error);
    arena_free(&arena);
}

/* The resources object of update. */
static inline void fuzz_resources(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_resources *resources = NULL;
    int ret = spec_parse_resources(&arena, (const char *)data, size, &resources, &error);
    fuzz_check(ret, &error, resources);
    if (ret == 0)
        (void)spec_validate_resources(resources, &error);
    arena_free(&arena);
}

static inline void fuzz_seccomp(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct spec_seccomp *seccomp = NULL;
    int ret = spec_parse_seccomp(&arena, (struct json_text){(const char *)data, size}, &seccomp, &error);
    fuzz_check(ret, &error, seccomp);
    arena_free(&arena);
}

/* runtime.json: what it allows is an annotation that has to be allowed. */
static inline void fuzz_policy(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct policy policy;
    int ret = policy_parse(&arena, (const char *)data, size, &policy, &error);
    fuzz_check(ret, &error, ret == 0 ? &policy : NULL);
    for (size_t i = 0; ret == 0 && i < policy.allow.count; i++)
        if (!policy_allows(&policy, policy.allow.items[i]) ||
            annotation_find(policy.allow.items[i])->power != ANNOTATION_RESTRICTED)
            abort();
    arena_free(&arena);
}

#endif
