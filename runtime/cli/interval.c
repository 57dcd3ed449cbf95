/* See interval.h. */
#include "cli/interval.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

static const struct {
    const char *suffix;
    uint64_t milliseconds;
} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

int interval_parse(const char *text)
{
    char digits[16];
    uint64_t number;
    size_t length = strspn(text, "0123456789");
    if (length >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, text, length);
    digits[length] = '\0';
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].suffix, text + length) != 0)
            continue;
        if (str_to_u64(digits, INT_MAX / units[i].milliseconds, &number) < 0 || number == 0)
            return -EINVAL;
        return (int)(number * units[i].milliseconds);
    }
    return -EINVAL;
}
