/* Memory for yajl, which does not check its allocations. If one fails, control leaves the call of yajl. */
#pragma once

#include <setjmp.h>
#include <yajl/yajl_common.h>

/* A failed allocation jumps to `is_short`. The function that calls yajl has to call setjmp(3) itself. After a
 * jump, the state of yajl is undefined and must not be used or freed. */
struct json_memory {
    jmp_buf is_short;
    yajl_alloc_funcs functions; /* for yajl_alloc and yajl_gen_alloc */
};

/* Set the functions. The caller sets `is_short` before it calls yajl. */
void json_memory_init(struct json_memory *memory);
