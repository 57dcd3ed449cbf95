/* What a template is made from. */
#ifndef PYSBX_CONTAINER_TEMPLATE_SPEC_H
#define PYSBX_CONTAINER_TEMPLATE_SPEC_H

struct arena;
struct spec;
struct template_request;

/* The container's configuration with everything read-only that would outlive the template, without network,
 * hooks and terminal, with limits and the program of the request. Looks at the container's root. Strings are
 * those of the request's plan or live in the arena. */
const struct spec *template_spec(struct arena *a, const struct template_request *request);

#endif
