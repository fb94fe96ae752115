/* A process whose first thread ends at once; another one works until it is killed, at most a minute.
 * gcc -O1 -fno-omit-frame-pointer -Wl,--build-id=none -pthread leaderless.c -o leaderless */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void *work(void *unused)
{
	time_t end = time(0) + 60;

	while (time(0) < end)
		for (volatile int i = 0; i < 1000000; i++)
			;
	_exit(0);
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, work, 0);
	pthread_exit(0);
}
