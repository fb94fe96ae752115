/* The plugin of chain.c. */
static volatile unsigned long sink;
__attribute__((noinline)) static void inside(void) { for (int i = 0; i < 20000; i++) sink += i * i; sink++; }
void plugged(void) { inside(); sink++; }
