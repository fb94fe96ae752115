/* A program that does little but what an analysis unit measures, and counts it:
 *
 *     storm-victims getppid SECONDS     two threads that call getppid
 *     storm-victims pipe SECONDS        two threads that send a byte to and fro through two pipes
 *     storm-victims switches SECONDS    the same with two processes
 *     storm-victims pages SECONDS       map a page, touch it, unmap it
 *     storm-victims forks SECONDS       fork a child that ends, and wait for it
 *
 * It waits for a line on standard input before it counts. Prints its rounds, the rounds a second, the nanoseconds of CPU
 * time for each, and its minor faults. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int pipes[2][2];
static pthread_barrier_t ready;
static double length;

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The CPU time of this process and of its ended children. */
static double used(void)
{
	struct rusage children;
	getrusage(RUSAGE_CHILDREN, &children);
	return now(CLOCK_PROCESS_CPUTIME_ID) + children.ru_utime.tv_sec + children.ru_utime.tv_usec / 1e6 +
	       children.ru_stime.tv_sec + children.ru_stime.tv_usec / 1e6;
}

static int call(void)
{
	return syscall(SYS_getppid) >= 0;
}

static int page(void)
{
	char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return 0;
	*at = 1;
	return munmap(at, 4096) == 0;
}

static int child(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

static int ping(void)
{
	char byte = 0;
	return write(pipes[0][1], &byte, 1) == 1 && read(pipes[1][0], &byte, 1) == 1;
}

/* Runs rounds for `length` seconds; returns their number. */
static unsigned long count(int (*round)(void))
{
	unsigned long n = 0;
	double until = now(CLOCK_MONOTONIC) + length;
	int goes_on = 1;
	while (goes_on && now(CLOCK_MONOTONIC) < until)
		for (int i = 0; i < 16 && (goes_on = round()); i++)
			n++;
	return n;
}

static void *calls(void *n)
{
	pthread_barrier_wait(&ready);
	*(unsigned long *)n = count(call);
	return NULL;
}

/* Answers until the other end is closed. */
static void *pongs(void *none)
{
	char byte;
	while (read(pipes[0][0], &byte, 1) == 1 && write(pipes[1][1], &byte, 1) == 1)
		;
	return none;
}

int main(int argc, char **argv)
{
	const char *names[] = {"pages", "forks", "switches", "pipe", "getppid"};
	int (*rounds[])(void) = {page, child, ping, ping, call};
	enum { SWITCHES = 2, PIPE, GETPPID, LOADS };
	int which = 0;
	if (argc < 3 || pipe(pipes[0]) || pipe(pipes[1]))
		return 2;
	while (which < LOADS && strcmp(argv[1], names[which]))
		which++;
	if (which == LOADS)
		return 2;
	length = atof(argv[2]);
	pid_t other = which == SWITCHES ? fork() : -1;
	if (other == 0) {
		close(pipes[0][1]);
		pongs(NULL);
		return 0;
	}
	unsigned long beside = 0;
	pthread_t thread;
	pthread_barrier_init(&ready, NULL, 2);
	if (which >= PIPE)
		pthread_create(&thread, NULL, which == PIPE ? pongs : calls, &beside);
	while (getchar() != '\n')
		;
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	double cpu = used();
	if (which == GETPPID)
		pthread_barrier_wait(&ready);
	double from = now(CLOCK_MONOTONIC);
	unsigned long n = count(rounds[which]);
	double seconds = now(CLOCK_MONOTONIC) - from;
	getrusage(RUSAGE_SELF, &after);
	close(pipes[0][1]);
	if (other > 0)
		waitpid(other, NULL, 0);
	if (which >= PIPE)
		pthread_join(thread, NULL);
	n += beside;
	cpu = used() - cpu;
	printf("%lu %.0f %.0f %ld\n", n, n / seconds, cpu / n * 1e9, after.ru_minflt - before.ru_minflt);
	return 0;
}
