// throws SECONDS: exceptions from six calls deep, and some hundred signals per second.
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <sys/time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void work(int n)
{
	for (int i = 0; i < 3000; i++)
		sink += i * n;
}

static void handler(int number)
{
	work(number);
	sink++;
}

__attribute__((noinline)) static void fall(int n)
{
	std::string kept(40 + n, 'x');
	if (n == 0)
		throw kept;
	fall(n - 1);
	sink += kept.size();
}

__attribute__((noinline)) static void caught()
{
	try {
		fall(6);
	} catch (const std::string &what) {
		work(what.size());
	}
	sink++;
}

int main(int argc, char **argv)
{
	struct sigaction action = {};
	struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &action, nullptr);
	setitimer(ITIMER_PROF, &often, nullptr);
	time_t end = time(nullptr) + (argc > 1 ? atoi(argv[1]) : 1);
	while (time(nullptr) < end)
		caught();
	return 0;
}
