/* shapes SHAPE SECONDS: stacks of known shapes, to check the result of a profiler. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile unsigned long sink;
static char shape;
static int file;

APART void leaf(int n)
{
	unsigned long x = n;

	for (int i = 0; i < 20000; i++)
		__asm__ volatile("" : "+r"(x));
	sink += x;
}
APART void middle(int n) { leaf(n); sink++; }
APART void outer(int n) { middle(n); sink++; }

APART void reads(void)
{
	char buffer[512];

	for (int i = 0; i < 50; i++)
		if (pread(file, buffer, sizeof buffer, 0) < 0)
			exit(1);
	sink++;
}

APART void clocks(void)
{
	struct timespec now;

	for (int i = 0; i < 500; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	sink++;
}

APART void f0(int n)
{
	if (shape == 'r')
		reads();
	else if (shape == 'c')
		clocks();
	else
		leaf(n);
	sink++;
}

/* Frames of different sizes, some below 1 KiB, some above, one of a size unknown at compile time. */
#define FRAME(self, callee, bytes) \
	APART void f##self(int n) \
	{ \
		volatile char pad[bytes]; \
		pad[0] = n; \
		f##callee(n + pad[0]); \
		sink += pad[0]; \
	}
FRAME(1, 0, 8)
FRAME(2, 1, 24)
FRAME(3, 2, 500)
FRAME(4, 3, 1000)
FRAME(5, 4, 1100)
FRAME(6, 5, 4000)
FRAME(7, 6, 8 + (n & 63))
FRAME(8, 7, 70000)
FRAME(9, 8, 16)
FRAME(10, 9, 40)

APART void deep(int n)
{
	if (n > 1)
		deep(n - 1);
	else
		leaf(n);
	sink++;
}

static int compare(const void *a, const void *b)
{
	leaf(1);
	return *(const int *)a - *(const int *)b;
}

APART void sorts(void)
{
	int all[16];

	for (int i = 0; i < 16; i++)
		all[i] = i * 7 % 16;
	qsort(all, 16, sizeof *all, compare);
	sink += all[3];
}

static void handler(int number)
{
	leaf(number);
	sink++;
}

static void catch(int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART | flags };
	struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	stack_t other = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&other, 0);
	sigaction(SIGPROF, &action, 0);
	setitimer(ITIMER_PROF, &often, 0);
}

APART void until(time_t end)
{
	struct timespec now;

	do {
		switch (shape) {
		case 'l': outer(1); break;
		case 'q': sorts(); break;
		case '2': deep(20); break;
		case 'd': deep(200); break;
		default: f10(1);
		}
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	} while (now.tv_sec < end);
}

static void *worker(void *end)
{
	until((time_t)(intptr_t)end);
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec now;
	pthread_t thread;

	shape = argc > 2 ? *argv[1] : 0;
	if (!shape)
		return 2;
	file = open(argv[0], O_RDONLY);
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now.tv_sec += atoi(argv[2]);
	if (shape == 's' || shape == 'a')
		catch(shape == 'a' ? SA_ONSTACK : 0);
	if (shape == 't') {
		pthread_create(&thread, 0, worker, (void *)(intptr_t)now.tv_sec);
		pthread_join(thread, 0);
	} else
		until(now.tv_sec);
	return 0;
}
