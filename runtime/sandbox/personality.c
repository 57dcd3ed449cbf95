/* Set the execution domain. */
#include "sandbox/personality.h"

#include <errno.h>
#include <sys/personality.h>

#include "base/error.h"
#include "base/json_out.h"
#include "sandbox/names.h"
#include "spec/spec.h"

static const struct name_value domains[] = {
    {"LINUX", PER_LINUX},
    {"LINUX32", PER_LINUX32},
    {NULL, 0},
};

int personality_plan(const struct spec_personality *personality_, struct personality_plan *out,
                     struct error *err)
{
    *out = (struct personality_plan){0};
    if (personality_ == NULL || personality_->domain == NULL)
        return 0;
    const struct name_value *domain = names_find(domains, personality_->domain);
    if (domain == NULL)
        return error_set(err, -EINVAL, "linux.personality.domain: unknown domain '%s'", personality_->domain);
    if (personality_->flags.count > 0)
        return error_set(err, -EINVAL, "linux.personality.flags[0]: unknown flag '%s'",
                         personality_->flags.items[0]);
    out->set = true;
    out->persona = (unsigned long)domain->value;
    return 0;
}

int personality_apply(const struct personality_plan *plan, struct error *err)
{
    if (plan->set && personality(plan->persona) < 0)
        return error_set(err, -errno, "set personality 0x%lx", plan->persona);
    return 0;
}

void personality_describe(const struct personality_plan *plan, struct json_out *out)
{
    json_out_string(out, names_of(domains, plan->persona));
}
