/* What a template is made from. */
#ifndef PYSBX_CONTAINER_TEMPLATE_SPEC_H
#define PYSBX_CONTAINER_TEMPLATE_SPEC_H

struct arena;
struct spec;
struct template_needs;
struct template_request;

/* The container's configuration with everything read-only that would outlive the template, without network,
 * hooks and terminal, with limits, the program of the request and a host name that says nothing. With
 * `needs`, of a template: without the variables and mounts that it does not need. NULL, for a probe: with all
 * of them, and with the agent preloaded. Looks at the container's root. Strings are those of the request's
 * plan or live in the arena. */
const struct spec *template_spec(struct arena *a, const struct template_request *request,
                                 const struct template_needs *needs);

#endif
