/* gcc -O2 -g -gsplit-dwarf -ffile-prefix-map=$PWD=/src -Wl,--build-id=none split.c -o split */
static inline __attribute__((always_inline)) long inner(long n)
{
	long sum = 0;

	for (volatile long i = 0; i < n; i++)
		sum += i;
	return sum;
}

__attribute__((noinline)) long outer(long n)
{
	return inner(n) + 1;
}

int main(void)
{
	return outer(1000) & 1;
}
