/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Sums system calls by thread and call, at the raw tracepoints of all calls. The first calls of each window on a CPU,
 * and calls that take long, are written as records into the CPU's ring instead; a call is either recorded or summed,
 * never both. If the ring has no room, the call is summed. Compiled by the `build` next to it; no header is included,
 * so that the object is the same everywhere.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
/* Without types of their own: the loader makes maps from what they hold. */
#define DATA(name) __attribute__((section(name), used, nodebug))
#define INLINE static inline __attribute__((always_inline))

/* Helpers (bpf-helpers(7)). */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const output)(void *ctx, void *map, u64 flags, void *data, u64 size) = (void *)25;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*const current_task)(void) = (void *)158;

#define CURRENT_CPU 0xffffffffull

/* What the loader makes of each map: type, key and value in bytes, entries, flags; sizes of inner maps' values. */
struct map {
	u32 type, key, value, entries, flags, inner;
};

#define HASH 1
#define ARRAY 2
#define PERF_EVENT_ARRAY 4
#define PERCPU_ARRAY 6
#define ARRAY_OF_MAPS 12
#define NO_PREALLOC 1
#define MMAPABLE 1024

/* Mapped by the loader (`Setting` of mod.rs has the same order). */
struct settings {
	/* Whether calls are measured. If not, calls that return are forgotten. */
	u64 on;
	/* Measuring begins with the next exec. */
	u64 await_exec;
	/* The map of sums in use, 0 or 1; the other one is read. */
	u64 active;
	/* The number of the window: each has a budget of records. */
	u64 window, budget;
	/* Calls that take longer, in nanoseconds, are recorded singly. */
	u64 slow;
	/* Whether only listed threads are measured, and whether their children are, too. */
	u64 narrow, inherit;
	/* The process that is never measured. */
	u64 own;
	/* The tracepoint's number, for records. */
	u64 kind;
	/* The offsets of a task's thread and process number. */
	u64 tid_at, pid_at;
	/* The budget of records of calls with a descriptor. */
	u64 descriptor_budget;
	/* The number of the window, from 1 on, in which a call that changes descriptors was last summed. */
	u64 changed;
};

/* A thread. `start` is 0 outside of a call. */
struct thread {
	u64 start;
	/* The call's number; the highest bit is set for the 32-bit ABI. */
	u32 call;
	/* Whether it has not returned from its creator's call yet. */
	u32 newborn;
	u32 pid, unused;
};

/* A CPU's records in a window, and losses since the start. */
struct budget {
	u32 window, used, slow, on_descriptor;
	/* Calls that were neither recorded nor summed, because the maps are full. */
	u64 lost;
};

#define ERRORS 8
/* Buckets of durations below 134 ms; figures/histogram.rs has the same ones. */
#define LONG 27
#define BUCKETS 736

struct error {
	u32 number, n;
};

struct sum {
	u64 n, ns, min, max;
	/* Calls above the limit of time, and calls without a time. */
	u32 slow, untimed;
	/* `listed`: calls above the limit, and failed ones. */
	u32 pid, listed;
	struct error error[ERRORS];
	u64 other_errors;
	u32 bucket[BUCKETS];
};

struct key {
	u32 tid, call;
};

/* The fields of raw_syscalls:sys_exit, and what a pair of records would have in addition. */
struct record {
	u16 kind;
	u8 flags, preempt;
	s32 tid;
	s64 number, result;
	/* -1 for a call without a time. */
	u64 ns;
	u64 argument[6];
	u32 call;
	/* The last window with a summed change of descriptors, and this window, both from 1 on. */
	u32 changed, window;
	u32 end;
};
/* Without the padding, so that the record is whole words with its size. */
#define RECORD 92

/* The bits of map `kinds`, and its calls of an ABI. */
#define ON_DESCRIPTOR 1
#define CHANGES 2
#define KINDS 1024

DATA("maps") struct map settings = {ARRAY, 4, sizeof(struct settings), 1, MMAPABLE, 0};
DATA("maps") struct map budgets = {PERCPU_ARRAY, 4, sizeof(struct budget), 1, 0, 0};
DATA("maps") struct map kinds = {ARRAY, 4, 16, 2 * KINDS, 0, 0};
DATA("maps") struct map threads = {HASH, 4, sizeof(struct thread), 32768, NO_PREALLOC, 0};
DATA("maps") struct map sums0 = {HASH, sizeof(struct key), sizeof(struct sum), 8192, NO_PREALLOC, 0};
DATA("maps") struct map sums1 = {HASH, sizeof(struct key), sizeof(struct sum), 8192, NO_PREALLOC, 0};
/* A value that is too large for the stack; all zeroes. */
DATA("maps") struct map blank = {ARRAY, 4, sizeof(struct sum), 1, 0, 0};
DATA("maps") struct map events = {PERF_EVENT_ARRAY, 4, 4, 0, 0, 0};
/* Its updates wait for running programs. */
DATA("maps") struct map barrier = {ARRAY_OF_MAPS, 4, 4, 1, 0, 8};

/* Whether the current call is one of the 32-bit ABI. offsets.rs checks the places. */
INLINE u32 is_narrow_abi(void)
{
	u8 *task = current_task();
#ifdef ARM64
	return (*(u64 *)task >> 22) & 1;
#else
	return (*(u32 *)(task + 16) >> 1) & 1;
#endif
}

INLINE u32 call_of(s64 number)
{
	return ((u32)number & 0x7fffffff) | is_narrow_abi() << 31;
}

INLINE u32 kind_of(u32 call)
{
	u32 at = call & 0x7fffffff;
	if (at >= KINDS)
		return 0;
	if (call >> 31)
		at += KINDS;
	u32 *kind = map_lookup(&kinds, &at);
	return kind ? *kind : 0;
}

INLINE struct thread *find(struct settings *set, u64 task)
{
	u32 tid = task;
	struct thread *thread = map_lookup(&threads, &tid);
	if (thread || set->narrow || (u32)(task >> 32) == set->own)
		return thread;
	struct thread fresh = {.pid = task >> 32};
	map_update(&threads, &tid, &fresh, 1);
	return map_lookup(&threads, &tid);
}

INLINE struct settings *get_settings(void)
{
	u32 zero = 0;
	return map_lookup(&settings, &zero);
}

SECTION("sys_enter") int begin(u64 *ctx)
{
	struct settings *set = get_settings();
	if (!set)
		return 0;
	struct thread *thread = find(set, current_pid_tgid());
	if (!thread)
		return 0;
	thread->newborn = 0;
	thread->call = call_of(ctx[1]);
	thread->start = set->on ? now() : 0;
	return 0;
}

/* Reads the arguments and the number of a call from the registers of user code. */
INLINE void read_call(const u8 *regs, struct record *record)
{
#ifdef ARM64
	/* x0 to x5; x0 has the result, and its old value is behind the others, before the number. */
	u64 tail[2] = {};
	read_kernel(record->argument, sizeof(record->argument), regs);
	read_kernel(tail, sizeof(tail), regs + 272);
	record->argument[0] = tail[0];
	record->number = (s32)tail[1];
#else
	/* From bp on: bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax. */
	u64 from[12] = {};
	read_kernel(from, sizeof(from), regs + 32);
	if (is_narrow_abi()) {
		record->argument[0] = (u32)from[1], record->argument[1] = (u32)from[7];
		record->argument[2] = (u32)from[8], record->argument[3] = (u32)from[9];
		record->argument[4] = (u32)from[10], record->argument[5] = (u32)from[0];
	} else {
		record->argument[0] = from[10], record->argument[1] = from[9];
		record->argument[2] = from[8], record->argument[3] = from[3];
		record->argument[4] = from[5], record->argument[5] = from[4];
	}
	record->number = from[11];
#endif
}

/* Writes a call into the CPU's ring; 0 if it was written. */
INLINE long record_call(u64 *ctx, u64 ns, u64 call)
{
	struct settings *set = get_settings();
	if (!set)
		return -1;
	struct record record = {.kind = set->kind, .tid = (u32)current_pid_tgid(), .result = ctx[1], .ns = ns};
	record.changed = set->changed;
	record.window = set->window + 1;
	read_call((const u8 *)ctx[0], &record);
	if (ns == ~0ull) {
		record.call = call_of(record.number);
	} else {
		record.call = call;
		/* -1 is the only negative number. */
		record.number = (call & 0x7fffffff) == 0x7fffffff ? -1 : (s64)(call & 0x7fffffff);
	}
	return output(ctx, &events, CURRENT_CPU, &record, RECORD);
}

INLINE u32 bucket_of(u64 ns)
{
	if (ns < 64)
		return ns;
	u64 rest = ns;
	u32 log = 0;
	if (rest >> 16)
		rest >>= 16, log += 16;
	if (rest >> 8)
		rest >>= 8, log += 8;
	if (rest >> 4)
		rest >>= 4, log += 4;
	if (rest >> 2)
		rest >>= 2, log += 2;
	if (rest >> 1)
		log += 1;
	u32 shift = log - 5;
	return (shift << 5) + (ns >> (shift & 31));
}

INLINE struct sum *find_sum(struct settings *set, struct key *key)
{
	struct sum *sum = set->active ? map_lookup(&sums1, key) : map_lookup(&sums0, key);
	if (sum)
		return sum;
	u32 zero = 0;
	void *fresh = map_lookup(&blank, &zero);
	if (!fresh)
		return 0;
	if (set->active) {
		map_update(&sums1, key, fresh, 1);
		return map_lookup(&sums1, key);
	}
	map_update(&sums0, key, fresh, 1);
	return map_lookup(&sums0, key);
}

/* Counts an error; returns whether it is the first of its number, which should be recorded. */
INLINE int count_error(struct sum *sum, u32 number)
{
#pragma unroll
	for (int i = 0; i < ERRORS; i++) {
		if (sum->error[i].number == number) {
			sum->error[i].n++;
			return 0;
		}
		if (sum->error[i].number == 0) {
			sum->error[i].number = number;
			return i + 1;
		}
	}
	return -1;
}

SECTION("sys_exit") int end(u64 *ctx)
{
	u32 zero = 0;
	struct settings *set = get_settings();
	struct budget *budget = map_lookup(&budgets, &zero);
	if (!set || !budget)
		return 0;
	u64 task = current_pid_tgid();
	struct thread *thread = find(set, task);
	if (!thread) {
		if (set->on && !set->narrow && (u32)(task >> 32) != set->own)
			budget->lost++;
		return 0;
	}
	u64 start = thread->start;
	u32 newborn = thread->newborn;
	thread->start = 0;
	thread->newborn = 0;
	if (!set->on)
		return 0;
	u64 ns = start ? now() - start : ~0ull;
	u32 call = thread->call;
	if (budget->window != (u32)set->window) {
		budget->window = set->window;
		budget->used = budget->slow = budget->on_descriptor = 0;
	}
	int is_single = 0;
	u32 kind = start ? kind_of(call) : 0;
	if (budget->used < set->budget)
		budget->used++, is_single = 1;
	else if (kind & ON_DESCRIPTOR && budget->on_descriptor < set->descriptor_budget)
		budget->on_descriptor++, is_single = 1;
	else if (start && ns > set->slow && budget->slow < set->budget)
		budget->slow++, is_single = 1;
	else if (start && ns >> LONG)
		is_single = 1;
	if (is_single && record_call(ctx, ns, call) == 0)
		return 0;
	/* A new thread returns from a call that it did not make. */
	if (!start && newborn)
		return 0;
	struct key key = {.tid = task, .call = call};
	if (!start) {
		struct record record = {};
		read_call((const u8 *)ctx[0], &record);
		key.call = call_of(record.number);
		kind = kind_of(key.call);
	}
	if (kind & CHANGES && set->changed != set->window + 1)
		set->changed = set->window + 1;
	struct sum *sum = find_sum(set, &key);
	s64 result = ctx[1];
	int slot = 0, has_failed = result < 0 && result >= -4095;
	if (sum && has_failed)
		slot = count_error(sum, -result);
	/* One example of each error is recorded, and all calls that have no place. */
	if ((!sum || slot) && record_call(ctx, ns, call) == 0)
		return 0;
	if (!sum) {
		budget->lost++;
		return 0;
	}
	sum->pid = task >> 32;
	if (slot < 0)
		sum->other_errors++;
	else if (slot > 0 && slot <= ERRORS)
		sum->error[slot - 1].n = 1;
	if (has_failed || (start && ns > set->slow))
		sum->listed++;
	if (!start) {
		sum->untimed++;
		return 0;
	}
	if (ns > set->slow)
		sum->slow++;
	if (!sum->n || ns < sum->min)
		sum->min = ns;
	if (ns > sum->max)
		sum->max = ns;
	sum->n++;
	sum->ns += ns;
	u32 bucket = ns >> LONG ? BUCKETS - 1 : bucket_of(ns);
	if (bucket < BUCKETS)
		sum->bucket[bucket]++;
	return 0;
}

SECTION("sched_process_fork") int forked(u64 *ctx)
{
	struct settings *set = get_settings();
	u32 parent = current_pid_tgid(), tid = 0;
	if (!set)
		return 0;
	read_kernel(&tid, sizeof(tid), (u8 *)ctx[1] + set->tid_at);
	if (set->narrow && (!set->inherit || !map_lookup(&threads, &parent))) {
		/* The number may be that of a thread that ended while it was added. */
		map_delete(&threads, &tid);
		return 0;
	}
	struct thread fresh = {};
	fresh.newborn = 1;
	read_kernel(&fresh.pid, sizeof(fresh.pid), (u8 *)ctx[1] + set->pid_at);
	if (fresh.pid != set->own)
		map_update(&threads, &tid, &fresh, 0);
	return 0;
}

/* A thread that calls exec takes the number of the main thread. */
SECTION("sched_process_exec") int executed(u64 *ctx)
{
	struct settings *set = get_settings();
	u32 tid = current_pid_tgid(), old = ctx[1];
	if (!set)
		return 0;
	if (old != tid) {
		struct thread *thread = map_lookup(&threads, &old);
		if (thread) {
			struct thread moved = *thread;
			map_update(&threads, &tid, &moved, 0);
			map_delete(&threads, &old);
		}
	}
	if (set->await_exec && map_lookup(&threads, &tid)) {
		set->await_exec = 0;
		set->on = 1;
	}
	return 0;
}

SECTION("sched_process_exit") int exited(u64 *ctx)
{
	u32 tid = current_pid_tgid();
	map_delete(&threads, &tid);
	return 0;
}

char DATA("license") licence[] = "Dual MIT/GPL";
