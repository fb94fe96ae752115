/* Twenty marked callers with frames of different sizes. The first argument selects what they call: arithmetic, libc's
   assembly, system calls, a plugin's function, or a recursion of 200 calls. The second argument is the time in
   seconds. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static char what, text[1 << 16], copy[1 << 16];
static int zero;
static void (*plugged)(void);
#define OUT_OF_LINE __attribute__((noinline))
OUT_OF_LINE void again(int n) {
  if (n == 0)
    for (int i = 0; i < 20000; i++) sink += i * i;
  else
    again(n - 1);
  sink++;
}
OUT_OF_LINE void work(void) {
  switch (what) {
  case 'a': for (int i = 0; i < 50; i++) { memcpy(copy, text, sizeof text); sink += strlen(copy) + (memchr(copy, 'y', sizeof copy) != 0); } break;
  case 's': for (int i = 0; i < 20; i++) { if (read(zero, copy, sizeof copy) < 0) exit(1); DIR *d = opendir("/proc/self/fd"); while (d && readdir(d)) sink++; closedir(d); } break;
  case 'p': plugged(); break;
  case 'r': again(200); break;
  default: again(0);
  }
  sink++;
}
#define F(a, b) OUT_OF_LINE void f##a(int n) { volatile char pad[8 * (a % 5) + 8]; pad[0] = n; b; sink += pad[0]; }
F(1, work()) F(2, f1(n)) F(3, f2(n)) F(4, f3(n)) F(5, f4(n)) F(6, f5(n)) F(7, f6(n)) F(8, f7(n)) F(9, f8(n)) F(10, f9(n))
F(11, f10(n)) F(12, f11(n)) F(13, f12(n)) F(14, f13(n)) F(15, f14(n)) F(16, f15(n)) F(17, f16(n)) F(18, f17(n)) F(19, f18(n)) F(20, f19(n))
int main(int argc, char **argv) {
  if (argc < 3) return 2;
  what = argv[1][0];
  memset(text, 'x', sizeof text - 1);
  zero = open("/dev/zero", O_RDONLY);
#ifndef STATIC
  if (what == 'p') {
    void *plugin = dlopen(argv[3], RTLD_NOW);
    if (!plugin || !(plugged = (void (*)(void))dlsym(plugin, "plugged"))) return 3;
  }
#endif
  struct timespec now, end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += atoi(argv[2]);
  do { f20(1); clock_gettime(CLOCK_MONOTONIC, &now); } while (now.tv_sec < end.tv_sec);
  return 0;
}
