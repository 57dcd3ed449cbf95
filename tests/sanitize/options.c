/* Settings of AddressSanitizer, compiled in, since engines start the runtime with an environment of their
 * own. See asan_interface.h. */

const char *__asan_default_options(void);

/* Leaks are not looked for: a child that becomes the container, or that ends in a namespace without the
 * tracer that LeakSanitizer forks, has nothing to free; what a command allocates ends with it. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:detect_stack_use_after_return=1";
}
