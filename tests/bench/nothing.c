/* The cost of starting any program. It is linked to libc only, and does nothing. */

int main(void)
{
    return 0;
}
