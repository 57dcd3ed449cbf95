/* Read the VMAs of a stopped process from /proc/PID/smaps (proc(5), Documentation/filesystems/proc.rst).
 * Decide which of them can be mapped again; no mapped file is opened. */
#include "warm/dump/vmas.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "warm/dump/text.h"
#include "warm/dump/tracee.h"

/* Two-letter codes of the line VmFlags: the flags that they require, or why the VMA cannot be saved. Other
 * codes describe nothing that must be restored. */
static const struct {
    char letters[3];
    uint32_t flag;
    const char *refused;
} vm_flags[] = {
    {"gd", SNAPSHOT_VMA_STACK, NULL},
    {"nr", SNAPSHOT_VMA_NORESERVE, NULL},
    {"dp", SNAPSHOT_VMA_DROPPABLE, NULL},
    {"wf", SNAPSHOT_VMA_WIPEONFORK, NULL},
    {"dc", SNAPSHOT_VMA_DONTFORK, NULL},
    {"dd", SNAPSHOT_VMA_DONTDUMP, NULL},
    {"hg", SNAPSHOT_VMA_HUGEPAGE, NULL},
    {"nh", SNAPSHOT_VMA_NOHUGEPAGE, NULL},
    {"mg", SNAPSHOT_VMA_MERGEABLE, NULL},
    {"lo", 0, "is locked in memory"},
    {"ht", 0, "uses huge pages"},
    {"io", 0, "belongs to a device"},
    {"pf", 0, "belongs to a device"},
    {"mm", 0, "belongs to a device"},
    {"um", 0, "is registered with userfaultfd"},
    {"uw", 0, "is registered with userfaultfd"},
    {"ui", 0, "is registered with userfaultfd"},
    {"ss", 0, "is a shadow stack"},
    {"sl", 0, "is sealed"},
};

struct reader {
    pid_t pid;
    struct arena *arena;
    const char *agent_path;
    struct dump_vmas *out;
    struct error *err;
    /* The VMA whose lines are being read. */
    struct snapshot_vma vma;
    const char *name;
    struct dump_vma_line head;
    struct dump_file agent; /* its name is NULL until it is found */
    bool is_agent, is_vdso;
    uint64_t total; /* bytes of all VMAs so far */
    uint64_t page;
    uint64_t last; /* the end of the VMA before it */
};

static int refuse(const struct reader *r, const char *why)
{
    return error_text(r->err, -ENOTSUP, "memory at %#lx-%#lx (%s) %s", (unsigned long)r->vma.start,
                      (unsigned long)r->vma.end, r->name[0] != '\0' ? r->name : "anonymous", why);
}

bool dump_vmas_is_of(const struct dump_vma_line *line, const struct dump_file *file)
{
    return file->major == line->major && file->minor == line->minor && file->inode == line->inode &&
           str_eq(file->name, line->name);
}

static struct dump_file file_of(const struct dump_vma_line *head, const char *name)
{
    return (struct dump_file){name, head->major, head->minor, head->inode};
}

static int read_head(struct reader *r, const char *line)
{
    struct dump_vma_line *head = &r->head;
    if (!dump_text_vma(line, head) || head->start < r->last || head->start >= head->end ||
        (head->start | head->end) % r->page != 0)
        return error_text(r->err, -EINVAL, "read '/proc/%d/smaps': '%s'", (int)r->pid, line);
    r->name = head->name;
    r->last = head->end;
    r->vma = (struct snapshot_vma){.start = head->start, .end = head->end, .offset = head->offset};
    r->vma.prot = (head->perms[0] == 'r' ? PROT_READ : 0) | (head->perms[1] == 'w' ? PROT_WRITE : 0) |
                  (head->perms[2] == 'x' ? PROT_EXEC : 0);
    r->is_agent = str_eq(r->name, r->agent_path);
    r->is_vdso = strcmp(r->name, "[vdso]") == 0 || str_after(r->name, "[vvar") != NULL;
    if (r->is_agent && r->agent.name == NULL)
        r->agent = file_of(head, r->agent_path);
    /* A file of a volume may have this name in its layer. Then it is unknown which one is the agent. */
    return !r->is_agent || dump_vmas_is_of(head, &r->agent)
               ? 0
               : refuse(r, "belongs to a second file with the name of the runtime's agent");
}

static int read_flags(struct reader *r, const char *list)
{
    for (const char *p = list; *p != '\0'; p++) {
        if (*p == ' ')
            continue;
        for (size_t i = 0; i < sizeof(vm_flags) / sizeof(*vm_flags); i++) {
            if (strncmp(p, vm_flags[i].letters, 2) != 0)
                continue;
            /* The kernel treats the vdso and vvar areas as devices. If they are sealed, they cannot be
             * moved. */
            if (vm_flags[i].refused != NULL && (!r->is_vdso || strcmp(vm_flags[i].letters, "sl") == 0))
                return refuse(r, vm_flags[i].refused);
            r->vma.flags |= vm_flags[i].flag;
        }
        if (p[1] != '\0')
            p++;
    }
    return 0;
}

static int add_vdso(struct reader *r)
{
    struct dump_vmas *out = r->out;
    if (out->vdso_count == SNAPSHOT_MAX_VDSO)
        return refuse(r, "is one vdso or vvar area too many");
    struct snapshot_vdso *s = &out->vdso[out->vdso_count++];
    *s = (struct snapshot_vdso){.start = r->vma.start, .end = r->vma.end};
    snprintf(s->name, sizeof(s->name), "%s", r->name);
    return 0;
}

static uint32_t find_file(struct reader *r)
{
    struct dump_vmas *out = r->out;
    if (r->is_agent)
        return SNAPSHOT_FILE_AGENT;
    /* VMAs of one file follow each other. */
    for (size_t i = out->file_count; i-- > 0;)
        if (dump_vmas_is_of(&r->head, &out->files[i]))
            return (uint32_t)i;
    out->files[out->file_count] = file_of(&r->head, arena_strdup(r->arena, r->name));
    return (uint32_t)out->file_count++;
}

/* Return whether the name marks a removed file. Such a mapping cannot be told from a mapping of a file with
 * that name. */
static bool is_deleted(const char *name)
{
    static const char mark[] = " (deleted)";
    size_t len = strlen(name);
    return len >= sizeof(mark) - 1 && strcmp(name + len - (sizeof(mark) - 1), mark) == 0;
}

/* Some programs reserve memory that they will never use; scanning all of it would take minutes. */
#define MOST_MEMORY (1ULL << 38)

int dump_vmas_take_content(struct snapshot_vma *a, const char *name, struct error *err)
{
    if ((a->flags & SNAPSHOT_VMA_SHARED) != 0 || (a->prot & PROT_EXEC) != 0)
        return error_text(err, -ENOTSUP,
                          "memory at %#lx-%#lx (%s) is %s of a file that the container does not have",
                          (unsigned long)a->start, (unsigned long)a->end, name,
                          (a->prot & PROT_EXEC) != 0 ? "code" : "a shared part");
    a->flags &= ~(uint32_t)SNAPSHOT_VMA_FILE;
    a->file = DUMP_BY_CONTENT;
    a->offset = 0;
    return 0;
}

static int classify(struct reader *r)
{
    struct snapshot_vma *a = &r->vma;
    bool shared = r->head.perms[3] == 's';
    r->total += a->end - a->start;
    if (r->total > MOST_MEMORY)
        return refuse(r, "is too large, with all memory below it");
    if (shared && (a->prot & PROT_WRITE) != 0)
        return refuse(r, "is shared and writable");
    if (!r->is_agent && is_deleted(r->name)) {
        a->flags |= shared ? SNAPSHOT_VMA_SHARED : 0;
        return dump_vmas_take_content(a, r->name, r->err);
    }
    if (strpbrk(r->name, "\\\n") != NULL)
        return refuse(r, "belongs to a file with an unusual name");
    if (r->name[0] == '/') {
        a->flags |= SNAPSHOT_VMA_FILE | (shared ? SNAPSHOT_VMA_SHARED : 0);
        if ((a->prot & PROT_WRITE) != 0 && (a->prot & PROT_EXEC) != 0)
            return refuse(r, "belongs to a file and is writable and executable");
        if ((a->flags & (SNAPSHOT_VMA_EMPTY | SNAPSHOT_VMA_STACK)) != 0)
            return refuse(r, "belongs to a file and is wiped on fork or a stack");
        a->file = find_file(r);
        return 0;
    }
    a->offset = 0;
    if (shared)
        return refuse(r, "is shared");
    if ((a->prot & PROT_EXEC) != 0 && a->end - a->start > SNAPSHOT_COPY_MAX)
        return refuse(r, "is executable and too large to be copied");
    static const char *const known[] = {"", "[heap]", "[stack]"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(r->name, known[i]) == 0)
            return 0;
    return str_after(r->name, "[anon:") != NULL ? 0 : refuse(r, "has an unknown kind");
}

static int finish_vma(struct reader *r)
{
    if (str_after(r->name, "[vsyscall]") != NULL)
        return 0; /* listed, but not a VMA: the same in every process */
    if (r->is_vdso)
        return add_vdso(r);
    int ret = classify(r);
    if (ret < 0)
        return ret;
    struct dump_vmas *out = r->out;
    out->vmas[out->vma_count++] = r->vma;
    return 0;
}

static size_t count_vmas(const char *text)
{
    size_t count = 0;
    for (const char *p = text; (p = strstr(p, "VmFlags:")) != NULL; p++)
        count++;
    return count;
}

int dump_vmas_parse(char *text, pid_t pid, struct arena *a, const char *agent_path, struct dump_vmas *out,
                    struct error *err)
{
    int ret = 0;
    size_t count = count_vmas(text);
    *out = (struct dump_vmas){.vmas = ARENA_ARRAY(a, count, struct snapshot_vma),
                              .files = ARENA_ARRAY(a, count, struct dump_file)};
    struct reader r = {.pid = pid, .arena = a, .agent_path = agent_path, .out = out, .err = err};
    r.page = (uint64_t)sysconf(_SC_PAGESIZE);
    bool head = true;
    /* Each VMA ends with its line VmFlags. */
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        const char *flags = str_after(line, "VmFlags:");
        if (head)
            ret = read_head(&r, line);
        else if (flags != NULL)
            ret = read_flags(&r, flags);
        if (ret < 0)
            return ret;
        if (flags != NULL && (ret = finish_vma(&r)) < 0)
            return ret;
        head = flags != NULL;
    }
    return 0;
}

int dump_vmas_read(const struct tracee *t, struct arena *a, const char *agent_path, struct dump_vmas *out,
                   struct error *err)
{
    char *text;
    int ret = tracee_file(t, a, "smaps", &text, NULL, err);
    return ret < 0 ? ret : dump_vmas_parse(text, t->pid, a, agent_path, out, err);
}
