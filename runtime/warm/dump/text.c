/* Texts of /proc/PID (warm/dump/text.h). */
#include "warm/dump/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "warm/snapshot/snapshot.h"

/* Fields of /proc/PID/stat, counted from 1. */
#define STAT_STATE      3
#define STAT_START_CODE 26
#define STAT_END_CODE   27
#define STAT_STACK      28
#define STAT_START_DATA 45
#define STAT_END_DATA   46
#define STAT_START_BRK  47

/* Parse "start-end perms offset major:minor inode   name". */
bool dump_text_vma(const char *line, struct dump_vma_line *out)
{
    unsigned long start, end, offset, inode;
    int name = 0;
    if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, out->perms, &offset, &out->major,
               &out->minor, &inode, &name) != 7 ||
        name == 0)
        return false;
    out->start = start;
    out->end = end;
    out->offset = offset;
    out->inode = inode;
    out->name = line + name;
    return true;
}

/* Parse "pos:\t0\nflags:\t02100000\n…", the flags in octal, and a line for each lock. */
bool dump_text_descriptor(const char *text, struct dump_descriptor *out)
{
    unsigned long position;
    unsigned flags;
    if (sscanf(text, "pos: %lu flags: %o", &position, &flags) != 2)
        return false;
    *out = (struct dump_descriptor){
        .position = position, .flags = flags, .has_lock = strstr(text, "\nlock:") != NULL};
    return true;
}

bool dump_text_layout(const char *text, struct snapshot_memory *out)
{
    uint64_t fields[STAT_START_BRK + 1] = {0};
    /* The second field is the command in parentheses and may contain any character. */
    const char *p = strrchr(text, ')');
    for (int i = STAT_STATE; p != NULL && i <= STAT_START_BRK; i++) {
        p = strchr(p, ' ');
        if (p != NULL)
            fields[i] = strtoull(++p, NULL, 10);
    }
    if (p == NULL)
        return false;
    out->start_code = fields[STAT_START_CODE];
    out->end_code = fields[STAT_END_CODE];
    out->start_stack = fields[STAT_STACK];
    out->start_data = fields[STAT_START_DATA];
    out->end_data = fields[STAT_END_DATA];
    out->start_brk = fields[STAT_START_BRK];
    return true;
}

/* Return the value of a line "Name:\tvalue" of /proc/PID/status, or NULL. */
static const char *status_value(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line != NULL ? line + strlen(name) : NULL;
}

int dump_text_own_pid(const char *text)
{
    const char *line = status_value(text, "\nNSpid:"), *last = NULL;
    for (const char *p = line; p != NULL && *p != '\0' && *p != '\n'; p++)
        if (*p == '\t')
            last = p;
    return last != NULL ? (int)strtol(last, NULL, 10) : 0;
}

bool dump_text_threads(const char *text, unsigned long *threads, bool *pending)
{
    const char *number = status_value(text, "\nThreads:\t");
    const char *own = status_value(text, "\nSigPnd:\t"), *shared = status_value(text, "\nShdPnd:\t");
    if (number == NULL || own == NULL || shared == NULL)
        return false;
    *threads = strtoul(number, NULL, 10);
    *pending = strtoull(own, NULL, 16) != 0 || strtoull(shared, NULL, 16) != 0;
    return true;
}

bool dump_text_signals(const char *text, uint64_t *set)
{
    const char *ignored = status_value(text, "\nSigIgn:\t"), *caught = status_value(text, "\nSigCgt:\t");
    if (ignored == NULL || caught == NULL)
        return false;
    *set = strtoull(ignored, NULL, 16) | strtoull(caught, NULL, 16);
    return true;
}

size_t dump_text_vdso(char *text, struct snapshot_vdso *out, size_t room)
{
    size_t count = 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL && count < room;
         line = strtok_r(NULL, "\n", &save)) {
        unsigned long start, end;
        const char *name = strrchr(line, ' ');
        if (name == NULL || (!str_eq(name + 1, "[vdso]") && str_after(name + 1, "[vvar") == NULL) ||
            sscanf(line, "%lx-%lx", &start, &end) != 2)
            continue;
        out[count] = (struct snapshot_vdso){.start = start, .end = end};
        snprintf(out[count].name, sizeof(out->name), "%s", name + 1);
        count++;
    }
    return count;
}
