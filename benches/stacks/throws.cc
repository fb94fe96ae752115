// Exceptions that pass through three functions, and a SIGPROF handler, 500 times per second.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <sys/time.h>
static volatile unsigned long sink;
[[gnu::noinline]] void spin(int n) { for (int i = 0; i < n; i++) sink += i * i; sink++; }
[[gnu::noinline]] void handler(int) { spin(200000); sink++; }
[[gnu::noinline]] void thrower(int n) { if (n % 3 == 0) throw std::runtime_error(std::to_string(n)); spin(2000); sink++; }
struct Guard { ~Guard() { sink++; } };
[[gnu::noinline]] void passes(int n) { Guard guard; thrower(n); spin(10); }
[[gnu::noinline]] void catches(int n) { try { passes(n); } catch (const std::exception &e) { sink += e.what()[0]; } spin(2000); sink++; }
[[gnu::noinline]] void loops(const std::function<void(int)> &f) { for (int i = 0; i < 100; i++) f(i); sink++; }
int main(int, char **argv) {
  signal(SIGPROF, handler);
  itimerval every{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_PROF, &every, nullptr);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(atoi(argv[2]));
  while (std::chrono::steady_clock::now() < end) loops([](int n) { catches(n); });
}
