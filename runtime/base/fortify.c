/* Functions that the distribution's static libraries (yajl, libcap) call because they were compiled for glibc
 * and fortified. They are in the Linux Standard Base Core, chapter "libc". musl lacks them, some of them only
 * since 1.2.4. Headers of glibc 2.38 and later replace strtoul by another name. Sizes are those of the
 * objects that are written to. */
#ifdef STATIC_PROGRAM

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *__strcpy_chk(char *to, const char *from, size_t room);
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room);
int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...);
int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...);
int __asprintf_chk(char **to, int flag, const char *format, ...);

/* Named for the linker only, because older headers of musl have macros of these names. Offsets always have 64
 * bits. */
int open_large(const char *path, int flags, ...) __asm__("open64");
int fstat_large(int fd, struct stat *st) __asm__("fstat64");
FILE *fopen_large(const char *path, const char *mode) __asm__("fopen64");
unsigned long strtoul_c23(const char *text, char **end, int base) __asm__("__isoc23_strtoul");

int open_large(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}

int fstat_large(int fd, struct stat *st)
{
    return fstat(fd, st);
}

FILE *fopen_large(const char *path, const char *mode)
{
    return fopen(path, mode);
}

unsigned long strtoul_c23(const char *text, char **end, int base)
{
    return strtoul(text, end, base);
}

char *__strcpy_chk(char *to, const char *from, size_t room)
{
    size_t size = strlen(from) + 1;
    if (size > room)
        abort();
    return memcpy(to, from, size);
}

void *__memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
    if (size > room)
        abort();
    return memcpy(to, from, size);
}

__attribute__((format(printf, 5, 6))) int __snprintf_chk(char *to, size_t size, int flag, size_t room,
                                                         const char *format, ...)
{
    (void)flag;
    if (size > room)
        abort();
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to, size, format, arguments);
    va_end(arguments);
    return length;
}

__attribute__((format(printf, 4, 5))) int __sprintf_chk(char *to, int flag, size_t room, const char *format,
                                                        ...)
{
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length >= room)
        abort();
    return length;
}

__attribute__((format(printf, 3, 4))) int __asprintf_chk(char **to, int flag, const char *format, ...)
{
    (void)flag;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(to, format, arguments);
    va_end(arguments);
    return length;
}

#endif
