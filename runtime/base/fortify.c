/* What the distribution's static libraries (yajl, libcap) call because they were compiled for glibc and
 * fortified: the functions of the Linux Standard Base Core, chapter "libc", that musl does not have. Sizes
 * are those of the objects that are written to. */
#ifdef STATIC_PROGRAM

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__memcpy_chk(void *to, const void *from, size_t size, size_t room);
int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...);
int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...);
int __asprintf_chk(char **to, int flag, const char *format, ...);

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
