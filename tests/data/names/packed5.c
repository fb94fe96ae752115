/* gcc -O2 -gdwarf-5 -gsplit-dwarf -ffile-prefix-map=$PWD=/src -Wl,--build-id=none packed5.c -o packed5; llvm-dwp packed5.dwo -o packed5.dwp */
static inline __attribute__((always_inline)) long inner(long n){ long s=0; for(volatile long i=0;i<n;i++) s+=i; return s; }
__attribute__((noinline)) long outer(long n){ return inner(n)+1; }
int main(){ long s=0; for(int i=0;i<20;i++) s+=outer(20000000); return s&1; }
