/* Execution domain: personality(2), runtime-spec linux.personality. */
#pragma once

#include <stdbool.h>

struct error;
struct json_out;
struct spec_personality;

struct personality_plan {
    bool set;
    unsigned long persona;
};

/* Plan the domain. personality NULL: there is nothing to do. Return 0, or -EINVAL with the JSON path for a
 * domain other than LINUX and LINUX32, or for any flag (the specification defines none). */
int personality_plan(const struct spec_personality *personality, struct personality_plan *out,
                     struct error *err);
/* Child: set the domain. Return 0 or a negative errno. */
int personality_apply(const struct personality_plan *plan, struct error *err);
/* Write the domain as a string. */
void personality_describe(const struct personality_plan *plan, struct json_out *out);
