/* Settings of AddressSanitizer, compiled in, because engines start the runtime with their own environment.
 * See asan_interface.h. */

const char *__asan_default_options(void);

/* Leak detection is off. A child that becomes the container has nothing to free. A child that ends in a
 * namespace without the tracer that LeakSanitizer forks has nothing to free either. The allocations of a
 * command end with it. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:detect_stack_use_after_return=1";
}
