/* Rounds a second of a program that does little but system calls:
 *
 *     call-victims getppid SECONDS    two threads that call getppid
 *     call-victims pipe SECONDS       two threads that send a byte to and fro through two pipes
 *
 * Its threads wait for a line on standard input before they count. Prints its rounds and the rounds a second. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;
static int pipes[2][2];
static unsigned long rounds[2];
static pthread_barrier_t ready;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *getppids(void *at)
{
	unsigned long *own = at;
	pthread_barrier_wait(&ready);
	while (!stop)
		for (int i = 0; i < 256; i++, ++*own)
			syscall(SYS_getppid);
	return NULL;
}

/* The first thread sends, and ends the other one by closing its pipe. */
static void *pings(void *at)
{
	char byte = 0;
	unsigned long *own = at;
	pthread_barrier_wait(&ready);
	while (!stop && write(pipes[0][1], &byte, 1) == 1 && read(pipes[1][0], &byte, 1) == 1)
		++*own;
	close(pipes[0][1]);
	return NULL;
}

static void *pongs(void *at)
{
	char byte;
	pthread_barrier_wait(&ready);
	while (read(pipes[0][0], &byte, 1) == 1 && write(pipes[1][1], &byte, 1) == 1)
		;
	return at;
}

int main(int argc, char **argv)
{
	if (argc < 3 || pipe(pipes[0]) || pipe(pipes[1]))
		return 2;
	int is_pipe = !strcmp(argv[1], "pipe");
	pthread_t threads[2];
	pthread_barrier_init(&ready, NULL, 3);
	pthread_create(&threads[0], NULL, is_pipe ? pings : getppids, &rounds[0]);
	pthread_create(&threads[1], NULL, is_pipe ? pongs : getppids, &rounds[1]);
	while (getchar() != '\n')
		;
	double from = now();
	pthread_barrier_wait(&ready);
	usleep(atof(argv[2]) * 1e6);
	stop = 1;
	double seconds = now() - from;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	unsigned long all = rounds[0] + rounds[1];
	printf("%lu %.0f\n", all, all / seconds);
	return 0;
}
