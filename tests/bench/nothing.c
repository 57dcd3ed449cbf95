/* The cost of starting any program: linked to libc alone, it does nothing. */

int main(void)
{
    return 0;
}
