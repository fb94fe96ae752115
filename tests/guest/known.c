/* known WHAT [N [MORE]]: loads whose figures are known; each ends by itself.
 *   reads N LEN    N read(2) of LEN bytes from /dev/zero
 *   touch N        N pages of memory touched for the first time, in touch
 *   store N        N stores of 1..N into flag, each in set_flag
 *   calls N        N calls of called(i, 3 * i), i from 1
 *   naps N MS      N times nanosleep of MS milliseconds
 *   waits N MS     N times blocked in read(2) of a pipe, in wait_for, until a child (`waker`) writes after MS milliseconds
 *   spins MS       two processes, `spin-a` and `spin-b`, on CPU 0 for that long
 *   forks N        N children, one after the other
 *   leaks N LEN    N allocations of LEN bytes that stay, in keep, and as many that are freed, in drop
 *   packets N      N datagrams to a socket of its own at 127.0.0.1
 *   opens N        N times open(2) of /proc/version
 *   serves N       N hits of the static probe known:served, whose argument is 3, 6, ... 3 N */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

volatile int flag;
static char buffer[65536];

static void nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
	nanosleep(&t, 0);
}

static long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

APART static void touch(char *at, long pages)
{
	for (long i = 0; i < pages; i++)
		at[i * 4096] = 1;
}

APART void set_flag(int value)
{
	flag = value;
	__asm__ volatile("" ::: "memory");
}

APART void called(long a, long b)
{
	__asm__ volatile("" :: "r"(a), "r"(b) : "memory");
}

/* A static probe as systemtap's sdt.h makes one: a nop, and a note of where it is and where its argument lies. */
APART void serve(long value)
{
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"\",%%note\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b, 0, 0\n"
			 ".asciz \"known\"\n.asciz \"served\"\n.asciz \"8@%0\"\n"
			 "994: .balign 4\n"
			 ".popsection" :: "r"(value));
}

/* The bytes of a read count, so that it is no tail call and stands in the chain. */
APART static int wait_for(int fd)
{
	char c;
	return read(fd, &c, 1) == 1 ? 1 : 0;
}

APART static void *keep(size_t len)
{
	char *p = malloc(len);
	*p = 1;
	return p;
}

APART static void drop(size_t len)
{
	char *p = malloc(len);
	*(volatile char *)p = 1;
	free(p);
}

static void on_cpu_0(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void spin(const char *name, int ms)
{
	prctl(PR_SET_NAME, name);
	on_cpu_0();
	for (long end = now_ms() + ms; now_ms() < end;)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static int packets(int n)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof to;
	int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0), got = 0;
	if (bind(in, (void *)&to, len) || getsockname(in, (void *)&to, &len))
		return perror("socket"), 1;
	for (int i = 0; i < n; i++) {
		sendto(out, buffer, 512, 0, (void *)&to, len);
		got += recv(in, buffer, sizeof buffer, MSG_DONTWAIT) == 512;
	}
	return got != n;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 1, more = argc > 3 ? atoi(argv[3]) : 1;
#define IS(name) (!strcmp(what, name))
	if (IS("reads")) {
		int fd = open("/dev/zero", O_RDONLY);
		for (int i = 0; i < n; i++)
			if (read(fd, buffer, more) != more)
				return 1;
	} else if (IS("touch")) {
		char *at = mmap(0, n * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(at, n * 4096L, MADV_NOHUGEPAGE);
		touch(at, n);
	} else if (IS("store")) {
		for (int i = 1; i <= n; i++)
			set_flag(i);
	} else if (IS("calls")) {
		for (int i = 1; i <= n; i++)
			called(i, 3 * i);
	} else if (IS("naps")) {
		for (int i = 0; i < n; i++)
			nap(more);
	} else if (IS("waits")) {
		int fd[2], got = 0;
		if (pipe(fd))
			return 1;
		if (fork() == 0) {
			prctl(PR_SET_NAME, "waker");
			for (int i = 0; i < n; i++) {
				nap(more);
				if (write(fd[1], "", 1) != 1)
					return 1;
			}
			return 0;
		}
		for (int i = 0; i < n; i++)
			got += wait_for(fd[0]);
		wait(0);
		return got != n;
	} else if (IS("spins")) {
		if (fork() == 0) {
			spin("spin-b", n);
			return 0;
		}
		spin("spin-a", n);
		wait(0);
	} else if (IS("forks")) {
		for (int i = 0; i < n; i++) {
			if (fork() == 0)
				_exit(0);
			wait(0);
		}
	} else if (IS("leaks")) {
		for (int i = 0; i < n; i++) {
			keep(more);
			drop(more);
		}
	} else if (IS("serves")) {
		for (int i = 1; i <= n; i++)
			serve(3L * i);
	} else if (IS("opens")) {
		for (int i = 0; i < n; i++)
			close(open("/proc/version", O_RDONLY));
	} else if (IS("packets")) {
		return packets(n);
	} else {
		return 2;
	}
	return 0;
}
