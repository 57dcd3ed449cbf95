/* list: the containers below the state root that have a name of a caller's. */
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_out.h"
#include "base/libraries.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "container/lookup.h"

struct list_values {
    bool quiet;
    int format;
};

static const struct option options[] = {
    {"quiet", 'q', OPTION_FLAG, offsetof(struct list_values, quiet), NULL, "print only the names", NULL},
    {"format", 'f', OPTION_CHOICE, offsetof(struct list_values, format), "FORMAT",
     "format of the list: table or json", output_formats},
    {0},
};

static pid_t pid_of(const struct listed *item)
{
    return item->status == STATUS_STOPPED ? 0 : item->record.pid;
}

static int print_names(const struct listed *items, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        puts(items[i].record.id);
    return output_finish(err);
}

static int list_print_json(const struct listed *items, size_t count, struct error *err)
{
    cleanup_json_out struct json_out *out = json_out_new(false);
    json_out_array_open(out);
    for (size_t i = 0; i < count; i++)
        record_write_state(&items[i].record, status_name(items[i].status), pid_of(&items[i]), true, out);
    json_out_array_close(out);
    return output_json(out, err);
}

enum { COLUMN_ID, COLUMN_PID, COLUMN_STATUS, COLUMN_BUNDLE, COLUMN_CREATED, COLUMN_OWNER, COLUMNS };

static const char *owner_name(struct arena *a, uid_t uid)
{
    const struct passwd *user = getpwuid(uid);
    return user != NULL ? arena_strdup(a, user->pw_name) : arena_printf(a, "#%u", uid);
}

static int list_print_table(struct arena *a, const struct listed *items, size_t count, struct error *err)
{
    static const char *const header[COLUMNS] = {"ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"};
    const char *(*rows)[COLUMNS] = arena_array(a, count + 1, sizeof(*rows));
    memcpy(rows[0], header, sizeof(header));
    for (size_t i = 0; i < count; i++) {
        const struct record *record = &items[i].record;
        const char **row = rows[i + 1];
        row[COLUMN_ID] = record->id;
        row[COLUMN_PID] = arena_printf(a, "%d", pid_of(&items[i]));
        row[COLUMN_STATUS] = status_name(items[i].status);
        row[COLUMN_BUNDLE] = str_escaped(a, record->bundle);
        row[COLUMN_CREATED] = record->created;
        row[COLUMN_OWNER] = owner_name(a, record->owner);
    }
    size_t widths[COLUMNS] = {0};
    for (size_t i = 0; i <= count; i++)
        for (size_t c = 0; c < COLUMNS; c++)
            if (strlen(rows[i][c]) > widths[c])
                widths[c] = strlen(rows[i][c]);
    for (size_t i = 0; i <= count; i++) {
        for (size_t c = 0; c < COLUMN_OWNER; c++)
            printf("%-*s  ", (int)widths[c], rows[i][c]);
        puts(rows[i][COLUMN_OWNER]);
    }
    return output_finish(err);
}

static int list_run(struct invocation *invocation, void *values, struct error *err)
{
    const struct list_values *list = values;
    struct listed *items;
    size_t count;
    /* Names of users may come from other sources than /etc/passwd: libc loads those that nsswitch.conf(5)
     * names. */
    int ret = list->quiet || list->format == OUTPUT_JSON ? 0 : libraries_require(err);
    if (ret < 0)
        return ret;
    ret = container_list(invocation->arena, invocation->runtime, &items, &count, err);
    if (ret < 0)
        return ret;
    /* The builder of a snapshot is a container that no command takes. It ends with the one that it is for. */
    size_t all = count;
    count = 0;
    for (size_t i = 0; i < all; i++)
        if (record_check_id(items[i].record.id, NULL) == 0)
            items[count++] = items[i];
    if (list->quiet)
        return print_names(items, count, err);
    return list->format == OUTPUT_JSON ? list_print_json(items, count, err)
                                       : list_print_table(invocation->arena, items, count, err);
}

const struct command command_list = {
    .name = "list",
    .arguments = "",
    .summary = "list containers",
    .options = options,
    .values_size = sizeof(struct list_values),
    .run = list_run,
};
