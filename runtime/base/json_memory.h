/* Memory for yajl, which takes for granted that it gets some: when there is none, the call of yajl is left.
 */
#ifndef PYSBX_BASE_JSON_MEMORY_H
#define PYSBX_BASE_JSON_MEMORY_H

#include <setjmp.h>
#include <yajl/yajl_common.h>

/* `is_short` is where calls of yajl are left for: setjmp(3) has to be called in the same function as they
 * are. What yajl was working on may only be thrown away then, and is not given back. */
struct json_memory {
    jmp_buf is_short;
    yajl_alloc_funcs functions; /* for yajl_alloc, yajl_gen_alloc */
};

void json_memory_init(struct json_memory *memory);

#endif
