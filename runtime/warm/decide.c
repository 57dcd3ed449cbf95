/* The decision in its order: cheap questions first, and nothing is read for a container without Python. */
#include "warm/decide.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/str.h"
#include "warm/interpreter.h"
#include "warm/restore/restore.h"
#include "warm/root_view.h"

#define PRELOAD_MAX     64
#define MODULE_NAME_MAX 255

static const char *const mode_words[] = {
    [WARM_AUTO] = "auto", [WARM_REQUIRE] = "require", [WARM_OFF] = "off"};

/* Variables which, if set and not empty, request an action at start-up. A snapshot is past that point. */
static const struct {
    const char *name, *reason;
} variable_reasons[] = {
    {"PYTHONINSPECT", "PYTHONINSPECT asks for an interactive interpreter"},
    {"PYTHONVERBOSE", "PYTHONVERBOSE shows the imports as they happen"},
    {"PYTHONDEBUG", "PYTHONDEBUG shows the parser at work"},
    {"PYTHONPROFILEIMPORTTIME", "PYTHONPROFILEIMPORTTIME measures the imports"},
    {"PYTHONTRACEMALLOC", "PYTHONTRACEMALLOC traces from the start on"},
    {"PYTHONPERFSUPPORT", "PYTHONPERFSUPPORT writes a file of its process"},
    {"PYTHON_PERF_JIT_SUPPORT", "PYTHON_PERF_JIT_SUPPORT writes a file of its process"},
    {"PYTHONMALLOCSTATS", "PYTHONMALLOCSTATS shows the allocations of start-up"},
    {"LD_DEBUG", "LD_DEBUG shows the loader at work"},
    {"LD_SHOW_AUXV", "LD_SHOW_AUXV shows the loader at work"},
    {"LD_TRACE_LOADED_OBJECTS", "LD_TRACE_LOADED_OBJECTS lists libraries only"},
};

/* Things that only a process of the container can see. If one of these differs, the start is cold. */
static const char *const compared_inside[] = {"files of /proc and /sys", "directories that can be written to",
                                              "terminals as standard streams",
                                              "whether the user may read the interpreter",
                                              "owners of files, if the snapshot was made for other host IDs"};

bool warm_is_candidate(const char *argv0)
{
    return interpreter_is_named_so(argv0);
}

static bool mode_of(const char *word, enum warm_mode *mode)
{
    for (size_t i = 0; i < sizeof(mode_words) / sizeof(mode_words[0]); i++)
        if (str_eq(word, mode_words[i])) {
            *mode = (enum warm_mode)i;
            return true;
        }
    return false;
}

/* Return whether the name consists of identifiers with dots between them. Python judges letters beyond
 * ASCII. */
static bool is_module_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > MODULE_NAME_MAX)
        return false;
    bool begins = true;
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || *p >= 0x80;
        bool digit = *p >= '0' && *p <= '9';
        if (*p == '.' ? begins : !letter && (begins || !digit))
            return false;
        begins = *p == '.';
    }
    return !begins;
}

/* Return whether a name to preload is a directory of modules instead: see WARM_ANNOTATION_PRELOAD. */
static bool is_directory_name(const char *name)
{
    return name[0] == '/' && strlen(name) < PATH_MAX;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Move the directories to the front, in their order, because the order of a search matters. Return their
 * number. */
static size_t directories_first(const char **names, size_t count)
{
    size_t front = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_directory_name(names[i]))
            continue;
        const char *directory = names[i];
        memmove(&names[front + 1], &names[front], (i - front) * sizeof(*names));
        names[front++] = directory;
    }
    return front;
}

/* Sort the names and remove duplicates, so that the same modules in another order give the same snapshot. */
static int take_preload(const char **names, size_t count, struct str_list *out, struct error *err)
{
    if (count > PRELOAD_MAX)
        return error_set(err, -EINVAL, "more than %d modules", PRELOAD_MAX);
    for (size_t i = 0; i < count; i++)
        if (!is_module_name(names[i]) && !is_directory_name(names[i]))
            return error_set(err, -EINVAL, "'%.64s%s' is not the name of a module", names[i],
                             strlen(names[i]) > 64 ? "…" : "");
    size_t front = directories_first(names, count);
    if (count > front)
        qsort(&names[front], count - front, sizeof(*names), by_text);
    out->items = names;
    out->count = 0;
    for (size_t i = 0; i < count; i++)
        if (i <= front || !str_eq(names[i], names[i - 1]))
            names[out->count++] = names[i];
    if (count > 0)
        names[out->count] = NULL;
    return 0;
}

static int preload_of_annotation(struct arena *a, const char *text, struct str_list *out, struct error *err)
{
    const char **names = ARENA_ARRAY(a, strlen(text) + 2, const char *);
    size_t count = 0;
    for (const char *p = text; *p != '\0';) {
        p += strspn(p, " ,");
        size_t length = strcspn(p, " ,");
        if (length > 0)
            names[count++] = arena_strndup(a, p, length);
        p += length;
    }
    return take_preload(names, count, out, err);
}

/* Take the container's own annotation, else the first rule that fits. */
static int plan_preload(struct arena *a, const struct warm_context *context, struct warm_plan *out,
                        struct error *err)
{
    const char *text = str_map_get(context->annotations, WARM_ANNOTATION_PRELOAD);
    if (text != NULL)
        return preload_of_annotation(a, text, &out->preload, err) < 0
                   ? error_wrap(err, "annotations[\"%s\"]", WARM_ANNOTATION_PRELOAD)
                   : 0;
    for (size_t i = 0; i < out->config.rules.count; i++) {
        const struct warm_rule *rule = &out->config.rules.items[i];
        const char *value = str_map_get(context->annotations, rule->annotation);
        if (value == NULL || fnmatch(rule->value, value, 0) != 0)
            continue;
        return take_preload(rule->preload.items, rule->preload.count, &out->preload, err) < 0
                   ? error_wrap(err, "warm.json: rules[%zu].preload", i)
                   : 0;
    }
    return 0;
}

static const char *obstacle(const struct warm_context *context)
{
    if (context->obstacle != NULL)
        return context->obstacle;
    for (size_t v = 0; context->facts.envp[v] != NULL; v++)
        for (size_t i = 0; i < sizeof(variable_reasons) / sizeof(variable_reasons[0]); i++) {
            const char *rest = str_after(context->facts.envp[v], variable_reasons[i].name);
            if (rest != NULL && rest[0] == '=' && rest[1] != '\0')
                return variable_reasons[i].reason;
        }
    return NULL;
}

/* Find a reason why not, else NULL and the key. */
static void look_closer(struct arena *a, const struct warm_context *context, struct warm_plan *out)
{
    out->reason = obstacle(context);
    if (out->reason == NULL)
        out->reason = command_line_parse(a, context->argv, context->terminal, &out->command_line);
    if (out->reason != NULL)
        return;
    struct interpreter interpreter = {0};
    out->reason = interpreter_find(a, context->facts.view, context->argv[0], context->search_path,
                                   context->facts.cwd, &interpreter);
    out->unseen = interpreter.unseen;
    if (out->reason == NULL)
        out->reason = restore_unavailable();
    if (out->reason != NULL)
        return;
    out->program = interpreter.program;
    out->minor = interpreter.minor;
    struct key_facts facts = context->facts;
    facts.called = context->argv[0];
    facts.program = interpreter.program;
    facts.interpreter = &interpreter.identity;
    facts.device = interpreter.device;
    facts.minor = interpreter.minor;
    facts.command_line = &out->command_line;
    facts.preload = &out->preload;
    struct error failure;
    if (key_make(a, &facts, &out->key, &failure) < 0)
        out->reason = arena_strdup(a, failure.text);
}

/* Turn a reason into an error in mode "require". For a program that is not seen from outside, the container's
 * first process reports the reason. If the program is missing or may not be executed, it reports the error of
 * a cold start. */
static int conclude(const struct warm_plan *plan, struct error *err)
{
    if (plan->reason == NULL || plan->mode != WARM_REQUIRE || plan->unseen)
        return 0;
    error_classify(err, plan->kind, error_text(err, -ENOTSUP, "%s", plan->reason));
    return error_wrap(err, "%s=require", WARM_ANNOTATION_MODE);
}

int warm_decide(struct arena *a, const struct warm_context *context, struct warm_plan *out, struct error *err)
{
    *out = (struct warm_plan){.mode = WARM_AUTO, .kind = ERROR_NOT_RESTORABLE};
    const char *mode = str_map_get(context->annotations, WARM_ANNOTATION_MODE);
    if (mode != NULL && !mode_of(mode, &out->mode))
        return error_set(err, -EINVAL, "annotations[\"%s\"]: unknown value '%.64s' (auto, require or off)",
                         WARM_ANNOTATION_MODE, mode);
    out->candidate = context->argv[0] != NULL && warm_is_candidate(context->argv[0]);
    if (!out->candidate) {
        out->reason = "the program does not have the name of a Python interpreter";
        return conclude(out, err);
    }
    int ret = warm_config_read(a, context->config, context->root_of_host, &out->config, err);
    if (ret < 0)
        return ret;
    if (mode == NULL && !mode_of(out->config.mode, &out->mode))
        out->mode = WARM_OFF; /* "optIn" */
    /* Containers of one snapshot share its memory layout. An annotation may come from the container image, so
     * it cannot enable that against the administrator. */
    if (str_eq(out->config.mode, "off")) {
        out->reason = "switched off in warm.json";
        out->kind = ERROR_WARM_OFF;
        return conclude(out, err);
    }
    if (out->mode == WARM_OFF) {
        out->reason = "switched off";
        out->kind = ERROR_WARM_OFF;
        return 0;
    }
    ret = plan_preload(a, context, out, err);
    if (ret < 0)
        return ret;
    out->bare = out->preload.count == 0;
    look_closer(a, context, out);
    return conclude(out, err);
}

void warm_describe(const struct warm_plan *plan, const char *snapshot, struct json_out *out)
{
    json_out_key(out, "warm");
    json_out_map_open(out);
    json_out_pair_string(out, "mode", mode_words[plan->mode]);
    json_out_pair_string(out, "start", plan->reason == NULL ? "warm" : "cold");
    json_out_pair_string(out, "reason", plan->reason);
    if (plan->program != NULL) {
        json_out_pair_string(out, "program", plan->program);
        json_out_key(out, "preload");
        json_out_array_open(out);
        for (size_t i = 0; i < plan->preload.count; i++)
            json_out_string(out, plan->preload.items[i]);
        json_out_array_close(out);
        json_out_pair_string(out, "key", plan->key.name);
    }
    if (plan->reason == NULL) {
        json_out_pair_string(out, "snapshot", snapshot);
        json_out_key(out, "comparedInContainer");
        json_out_array_open(out);
        for (size_t i = 0; i < sizeof(compared_inside) / sizeof(compared_inside[0]); i++)
            json_out_string(out, compared_inside[i]);
        json_out_array_close(out);
    }
    json_out_map_close(out);
}
