/* JSON documents other than config.json: the annotation of Landlock, warm.json, runtime.json. */
#include <string.h>

#include "base/json_out.h"
#include "base/log.h"
#include "sandbox/lsm/landlock.h"
#include "spec/annotations.h"
#include "spec/json.h"
#include "spec/policy.h"
#include "targets.h"
#include "warm/config.h"

static void check_json(struct arena *a, struct json_out *out)
{
    size_t size;
    struct error error = {0};
    struct json_value *root;
    const char *text = json_out_text(out, &size);
    fuzz_require(text != NULL && json_parse(a, text, size, NULL, NULL, &root, &error) == 0);
}

/* The first byte is the kernel's ABI. */
void fuzz_landlock(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct arena arena = {0};
    struct error error = {0};
    struct landlock_plan plan;
    int abi = (int)(fuzz_take(&input, 1) % 9);
    char *text = fuzz_text(input.data, input.size);
    int ret = landlock_plan(&arena, text, abi, &plan, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        fuzz_require(plan.wanted && plan.ruleset == -1 && (!plan.required || plan.abi > 0));
        for (size_t i = 0; i < plan.path_count; i++)
            fuzz_require(plan.paths[i].path[0] == '/' && plan.paths[i].access != 0);
        for (size_t i = 0; i < plan.port_count; i++)
            fuzz_require(plan.ports[i].port <= UINT16_MAX && plan.ports[i].access != 0);
        landlock_plan_allow(&arena, "/agent", &plan);
        cleanup_json_out struct json_out *out = json_out_new(false);
        landlock_describe(&plan, out);
        check_json(&arena, out);
    }
    free(text);
    arena_free(&arena);
}

void fuzz_warm_config(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct warm_config config;
    int ret = warm_config_parse(&arena, (const char *)data, size, &config, &error);
    fuzz_check_error(ret, &error);
    if (ret == 0) {
        fuzz_require(strcmp(config.mode, "auto") == 0 || strcmp(config.mode, "require") == 0 ||
                     strcmp(config.mode, "optIn") == 0 || strcmp(config.mode, "off") == 0);
        fuzz_require(config.max_age >= 1 && config.max_uses >= 1 && config.builder.timeout >= 1);
        for (size_t i = 0; i < config.rules.count; i++)
            fuzz_require(config.rules.items[i].annotation[0] != '\0' &&
                         config.rules.items[i].value[0] != '\0');
    }
    arena_free(&arena);
}

/* An annotation that runtime.json allows is one that needs permission. */
void fuzz_policy(const uint8_t *data, size_t size)
{
    struct arena arena = {0};
    struct error error = {0};
    struct policy policy;
    int ret = policy_parse(&arena, (const char *)data, size, &policy, &error);
    fuzz_check_error(ret, &error);
    for (size_t i = 0; ret == 0 && i < policy.allow.count; i++)
        fuzz_require(policy_allows(&policy, policy.allow.items[i]) &&
                     annotation_find(policy.allow.items[i])->power == ANNOTATION_RESTRICTED);
    arena_free(&arena);
}
