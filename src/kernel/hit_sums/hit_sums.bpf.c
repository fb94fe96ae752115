/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Sums the hits of a software event by thread, at the event itself. Each hit is either recorded as a sample or summed,
 * never both. Up to a number of hits on a CPU in a window, each is recorded. In the window after one with more, chance
 * selects a smaller number of them, and the first hits of each thread are recorded, too. Compiled by the `build` next to
 * it; no header is included, so that the object is the same everywhere.
 */

typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
/* Without types of their own: the loader makes maps from what they hold. */
#define DATA(name) __attribute__((section(name), used, nodebug))
#define INLINE static inline __attribute__((always_inline))

/* Helpers (bpf-helpers(7)). */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*const random)(void) = (void *)7;
static long (*const jump)(void *ctx, void *programs, u32 at) = (void *)12;
static u64 (*const current_pid_tgid)(void) = (void *)14;

/* What the loader makes of each map: type, key and value in bytes, entries, flags; sizes of inner maps' values. */
struct map {
	u32 type, key, value, entries, flags, inner;
};

#define HASH 1
#define ARRAY 2
#define PROG_ARRAY 3
#define PERCPU_ARRAY 6
#define ARRAY_OF_MAPS 12
#define MMAPABLE 1024

/* Mapped by the loader (`Setting` of mod.rs has the same order). */
struct settings {
	/* Whether hits are summed. If not, each is recorded. */
	u64 on;
	/* The map of sums in use, 0 or 1; the other one is read. */
	u64 active;
	/* The number of the window. */
	u64 window;
	/* The hits on a CPU in a window that are all recorded, and the number that chance selects of more. */
	u64 budget, selected;
	/* The process whose hits are never summed. */
	u64 own;
	/* Whether a hit was summed since the last reading. Written here. */
	u64 summed;
};

/* A CPU's hits in a window. */
struct cpu {
	u32 window, hits;
	/* Recorded hits: all or by chance, and the first ones of a thread. */
	u32 drawn, first;
	/* A hit is recorded if a random number is below. */
	u64 chance;
};
#define ALL (1ull << 32)

struct sum {
	u64 n;
	u32 pid;
	/* The first hits of the window, which were recorded. */
	u32 first;
};
/* The hits of a thread that are recorded in any case. */
#define FIRST 16

DATA("maps") struct map settings = {ARRAY, 4, sizeof(struct settings), 1, MMAPABLE, 0};
DATA("maps") struct map cpus = {PERCPU_ARRAY, 4, sizeof(struct cpu), 1, 0, 0};
/* With elements from the start, as kernels before 6.1 require at events. */
DATA("maps") struct map sums0 = {HASH, 4, sizeof(struct sum), 4096, 0, 0};
DATA("maps") struct map sums1 = {HASH, 4, sizeof(struct sum), 4096, 0, 0};
/* The program that walks the stack of a recorded hit, if any. */
DATA("maps") struct map next = {PROG_ARRAY, 4, 4, 1, 0, 0};
/* Its updates wait for running programs. */
DATA("maps") struct map barrier = {ARRAY_OF_MAPS, 4, 4, 1, 0, 8};

INLINE struct sum *find_sum(struct settings *set, u32 tid)
{
	struct sum *sum = set->active ? map_lookup(&sums1, &tid) : map_lookup(&sums0, &tid);
	struct sum fresh = {};
	if (sum)
		return sum;
	if (set->active) {
		map_update(&sums1, &tid, &fresh, 1);
		return map_lookup(&sums1, &tid);
	}
	map_update(&sums0, &tid, &fresh, 1);
	return map_lookup(&sums0, &tid);
}

/* Takes a hit into the sums; 0 if it is to be recorded. */
INLINE int sum_up(void)
{
	u32 zero = 0;
	struct settings *set = map_lookup(&settings, &zero);
	struct cpu *cpu = map_lookup(&cpus, &zero);
	u64 task = current_pid_tgid();
	if (!set || !cpu || !set->on || task >> 32 == set->own)
		return 0;
	u32 window = set->window;
	if (cpu->window != window) {
		cpu->chance = ALL;
		if (cpu->window + 1 == window && cpu->hits > set->budget)
			cpu->chance = (set->selected << 32) / cpu->hits;
		cpu->window = window;
		cpu->hits = cpu->drawn = cpu->first = 0;
	}
	cpu->hits++;
	/* Chance may select more than planned. */
	u64 limit = cpu->chance == ALL ? set->budget : 2 * set->selected;
	if (cpu->drawn < limit && random() < cpu->chance) {
		cpu->drawn++;
		return 0;
	}
	struct sum *sum = find_sum(set, task);
	if (!sum)
		return 0;
	if (sum->first < FIRST && cpu->first < set->budget) {
		sum->first++;
		cpu->first++;
		return 0;
	}
	sum->n++;
	sum->pid = task >> 32;
	if (!set->summed)
		set->summed = 1;
	return 1;
}

/* Returns 1 if the sample is taken: the program that is jumped to returns 1, too. */
SECTION("perf_event") int hit(void *ctx)
{
	if (sum_up())
		return 0;
	jump(ctx, &next, 0);
	return 1;
}

char DATA("license") licence[] = "Dual MIT/GPL";
