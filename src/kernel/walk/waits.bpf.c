/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Sums the time that threads sleep, by thread and stack, at the raw tracepoint of context switches. A thread that goes
 * to sleep is the current one there: its stack is walked as for samples (walk.bpf.c, whose tables this shares), unless
 * what it has at its stack pointer is known from an earlier walk. A stack is written into the CPU's ring once in a
 * while; sums refer to it by its id. The sums are in two maps that take turns, as those of system calls. All maps are
 * allocated in advance, because a switch must not wait for memory. Compiled by the `build` next to it.
 */

#define WAITS
#include "walk.bpf.c"

static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u32 (*const current_cpu)(void) = (void *)8;
static long (*const kernel_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static u64 (*const current_cgroup)(void) = (void *)80;

#define MMAPABLE 1024
#define MOST_CPUS 4096
#define NO_EXIST 1

/* Mapped by the loader (`Setting` of waits.rs has the same order). */
struct wait_settings {
	/* The map of sums in use, 0 or 1; the other one is read. */
	u64 active;
	/* The number of the window, and the nanoseconds of a CPU for walks in each: a walk takes 5 to 200 µs, as the tables
	 * are in its caches or not. */
	u64 window, budget;
	/* The process whose waits do not count. */
	u64 own;
	/* The offset of a task's thread number. */
	u64 tid_at;
	/* A bit for each CPU on which sleeps that begin do not count. */
	u64 left_out[MOST_CPUS / 64];
};

/* A thread that has slept; `start` is 0 while it does not. */
struct waiter {
	u64 start, stack, cgroup;
	u32 pid, cpu;
};

struct wait_key {
	u32 tid, unused;
	u64 stack;
};

struct wait_sum {
	u64 ns, n, cgroup;
	u32 pid, cpu;
};

/* Of a CPU: the time of walks in a window; since the start, the waits without a place, the program's runs, and its time
 * with and for walks. */
struct wait_budget {
	u64 window, used, lost, runs, spent, walked;
};

/* The id of the stack that a fingerprint stands for, and since which window. The check tells a torn value. */
struct known_stack {
	u64 id, check, window;
};

/* The window in which a stack was written. */
struct sent_stack {
	u64 id, window;
};

#define STACKS (1 << 14)
/* Windows until a stack is walked and written again. */
#define AGE 30
/* Words at the stack pointer that are looked at. */
#define TOP 48
#define KERNEL_FRAMES 24
/* A task's state after its end. */
#define DEAD 0x80

struct map DATA("maps") wait_settings = { ARRAY, 4, sizeof(struct wait_settings), 1, MMAPABLE, 0 };
struct map DATA("maps") wait_budgets = { PERCPU_ARRAY, 4, sizeof(struct wait_budget), 1, 0, 0 };
struct map DATA("maps") waiters = { HASH, 4, sizeof(struct waiter), 1 << 14, 0, 0 };
struct map DATA("maps") waits0 = { HASH, sizeof(struct wait_key), sizeof(struct wait_sum), 1 << 14, 0, 0 };
struct map DATA("maps") waits1 = { HASH, sizeof(struct wait_key), sizeof(struct wait_sum), 1 << 14, 0, 0 };
struct map DATA("maps") known_stacks = { ARRAY, 4, sizeof(struct known_stack), STACKS, 0, 0 };
struct map DATA("maps") sent_stacks = { ARRAY, 4, sizeof(struct sent_stack), STACKS, 0, 0 };
/* Its updates wait for running programs. */
struct map DATA("maps") wait_barrier = { ARRAY_OF_MAPS, 4, 4, 1, 0, 8 };

/* A hash of what determines the walk: the registers, the system call, and the words at the stack pointer that may be
 * addresses of code or of the stack. Others change from call to call. */
INLINE u64 fingerprint(struct state *s, struct registers *r, u64 state)
{
	u64 hash = mix(mix(mix(current_pid_tgid() >> 32, s->pc), s->sp), s->fp), word, mask;

	hash = mix(hash, (u64)r->CALL_NUMBER << 32 ^ state);
	/* Zeroes where it cannot be read. */
	if (read_user(s->ip, TOP * 8, (const void *)s->sp))
		read_user(s->ip, 64, (const void *)s->sp);
#pragma unroll
	for (int i = 0; i < TOP; i++) {
		word = s->ip[i];
		mask = up_to(1ull << 40, word) | up_to(word - 0x400000, 0x1bfffff);
		hash = mix(hash, word & mask);
	}
	return hash;
}

static long add_word(u32 at, void *which)
{
	struct state *s = map_lookup(&states, which);

	if (!s)
		return 1;
	s->cookie = mix(s->cookie, s->ip[at & (WORDS - 1)]);
	return 0;
}

/* Adds the kernel's part behind the words of a walk, writes both unless that was done lately, and returns the id. */
INLINE u64 write_stack(void *ctx, struct state *s, u64 window, u32 which)
{
	u64 n = s->depth & (WORDS - 1), id;
	struct sent_stack *sent;
	long k;
	u32 at;

	if (s->flags & PROCESS_UNKNOWN) {
		s->ip[n] = (u32)(s->owner >> 32);
		n++;
	}
	k = kernel_stack(ctx, &s->ip[n], 8 * KERNEL_FRAMES, 0);
	if (k < 0)
		k = 0;
	k = (k >> 3) & 31;
	if (k > KERNEL_FRAMES)
		k = KERNEL_FRAMES;
	s->cookie = s->owner >> 32;
	loop(n + k, add_word, &which, 0);
	id = s->cookie | 1;
	at = id >> 8 & (STACKS - 1);
	sent = map_lookup(&sent_stacks, &at);
	if (!sent || (sent->id == id && window - sent->window < AGE))
		return id;
	n = (n + k) & 2047;
	if (n > WORDS + KERNEL_FRAMES)
		return 0;
	s->ip[n] = k;
	s->ip[n + 1] = id;
	if (output(ctx, &events, CURRENT_CPU, &s->why, 20 + 8 * n)) {
		/* The ring has no room: it is written with the next window's wait. */
		s->flags |= MAPPING_UNKNOWN;
		return id;
	}
	sent->id = id;
	sent->window = window;
	return id;
}

/* The id of the current task's stack; 0 if there is no time for a walk. */
INLINE u64 find_stack(void *ctx, struct wait_settings *set, struct wait_budget *budget, u64 state, u64 *time)
{
	u32 which = WAITED, zero = 0, at;
	struct registers *r = task_regs(current_task());
	struct state *s = map_lookup(&states, &which);
	const struct settings *said = map_lookup(&settings, &zero);
	struct known_stack *known = 0;
	u64 print = 0, window = set->window, id;

	if (!s || !said)
		return 0;
	if (take_saved(s, r)) {
		print = fingerprint(s, r, state);
		at = print >> 8 & (STACKS - 1);
		known = map_lookup(&known_stacks, &at);
		if (!known)
			return 0;
		id = known->id;
		if (known->check == mix(print, id) && window - known->window < AGE)
			return id;
	}
	if (budget->window != window) {
		budget->window = window;
		budget->used = 0;
	}
	if (budget->used >= set->budget)
		return 0;
	if (known) {
		begin_walk(s, said, AT_TRACEPOINT | OF_WAIT);
		if (!walk_user(s, which))
			return 0;
	} else {
		s->owner = current_pid_tgid();
		s->depth = 0;
		s->why = COMPLETE;
		s->flags = AT_TRACEPOINT | OF_WAIT;
	}
	id = write_stack(ctx, s, window, which);
	if (known) {
		known->id = id;
		/* Until tables are there, the next window's wait is walked again. */
		known->window = window - (s->flags & (PROCESS_UNKNOWN | MAPPING_UNKNOWN) ? AGE - 1 : 0);
		known->check = mix(print, id);
	}
	window = now();
	budget->used += window - *time;
	budget->walked += window - *time;
	*time = window;
	return id;
}

/* Begins the wait of the current task, which is also one of the session's. `time` is moved to the end of a walk. */
INLINE void falls_asleep(void *ctx, struct wait_settings *set, struct wait_budget *budget, u64 state, u64 *time)
{
	u64 task = current_pid_tgid();
	u32 tid = task, cpu = current_cpu(), zero = 0;
	const struct settings *said = map_lookup(&settings, &zero);
	struct waiter *waiter;

	if (!tid || task >> 32 == set->own || set->left_out[cpu >> 6 & (MOST_CPUS / 64 - 1)] >> (cpu & 63) & 1)
		return;
	if (!said || (said->events && !kernel_word(current_address() + said->events)))
		return;
	if (state & DEAD) {
		map_delete(&waiters, &tid);
		return;
	}
	waiter = map_lookup(&waiters, &tid);
	if (!waiter) {
		struct waiter fresh = {};

		map_update(&waiters, &tid, &fresh, NO_EXIST);
		waiter = map_lookup(&waiters, &tid);
		if (!waiter) {
			budget->lost++;
			return;
		}
	}
	waiter->stack = find_stack(ctx, set, budget, state, time);
	waiter->cgroup = current_cgroup();
	waiter->pid = task >> 32;
	waiter->cpu = cpu;
	waiter->start = *time;
}

INLINE struct wait_sum *find_wait(struct wait_settings *set, struct wait_key *key)
{
	struct wait_sum *sum = set->active ? map_lookup(&waits1, key) : map_lookup(&waits0, key), fresh = {};

	if (sum)
		return sum;
	if (set->active) {
		map_update(&waits1, key, &fresh, NO_EXIST);
		return map_lookup(&waits1, key);
	}
	map_update(&waits0, key, &fresh, NO_EXIST);
	return map_lookup(&waits0, key);
}

INLINE void runs_again(struct wait_settings *set, struct wait_budget *budget, u64 task, u64 time)
{
	u32 tid = 0;
	struct waiter *waiter;
	struct wait_key key = {};
	struct wait_sum *sum;
	u64 start;

	read_kernel(&tid, sizeof(tid), (const void *)(task + set->tid_at));
	if (!tid)
		return;
	waiter = map_lookup(&waiters, &tid);
	if (!waiter || !waiter->start)
		return;
	key.tid = tid;
	key.stack = waiter->stack;
	start = waiter->start;
	waiter->start = 0;
	sum = find_wait(set, &key);
	if (!sum) {
		budget->lost++;
		return;
	}
	/* The clocks of CPUs may differ a little. */
	if (time > start)
		sum->ns += time - start;
	sum->n++;
	sum->cgroup = waiter->cgroup;
	sum->pid = waiter->pid;
	sum->cpu = current_cpu();
}

/* Whether it was preempted, the task that leaves, the one that comes, the state of the first (Linux 5.18). */
SECTION("sched_switch") int switched(u64 *ctx)
{
	u32 zero = 0;
	struct wait_settings *set = map_lookup(&wait_settings, &zero);
	struct wait_budget *budget = map_lookup(&wait_budgets, &zero);
	u64 began = now(), time = began;

	if (!set || !budget)
		return 0;
	runs_again(set, budget, ctx[2], time);
	if (!(u8)ctx[0] && (u32)ctx[3])
		falls_asleep(ctx, set, budget, (u32)ctx[3], &time);
	budget->runs++;
	budget->spent += now() - began;
	return 0;
}
