/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Stores context switches and wake-ups in a buffer of the CPU, at their raw tracepoints. A full buffer is written into
 * the CPU's ring as one record; what a buffer holds before that can be read in the map. Events have numbers per CPU, so
 * that readers know which ones they have read and which ones are lost. Compiled by the `build` next to it; no header is
 * included, so that the object is the same everywhere.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef short s16;

#define SECTION(name) __attribute__((section(name), used))
/* Without types of their own: the loader makes maps from what they hold. */
#define DATA(name) __attribute__((section(name), used, nodebug))
#define INLINE static inline __attribute__((always_inline))
/* Keeps the order of stores for interrupts of the same CPU. */
#define IN_ORDER() asm volatile("" ::: "memory")

/* Helpers (bpf-helpers(7)). */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now)(void) = (void *)5;
static u32 (*const current_cpu)(void) = (void *)8;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *to, u32 size) = (void *)16;
static long (*const output)(void *ctx, void *map, u64 flags, void *data, u64 size) = (void *)25;
static u64 (*const current_cgroup)(void) = (void *)80;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#define CURRENT_CPU 0xffffffffull

/* What the loader makes of each map: type, key and value in bytes, entries (0: one for each CPU), flags; sizes of inner
 * maps' values. */
struct map {
	u32 type, key, value, entries, flags, inner;
};

#define ARRAY 2
#define PERF_EVENT_ARRAY 4
#define MMAPABLE 1024

/* Mapped by the loader (`Setting` of mod.rs has the same order). */
struct settings {
	/* The kinds of events that are stored, as bits. */
	u64 kinds;
	/* The offsets of a task's fields. */
	u64 tid_at, prio_at, comm_at, cpu_at, exit_state_at;
};

/* The kinds of events (`SchedEventKind` of mod.rs has the same order). */
enum { SWITCH, WAKEUP, WAKING, WAKEUP_NEW };

/* A task's state after its end. */
#define DEAD 0x80

/* An event (`SwitchEvent::parse` reads it): the time, the process and thread on the CPU and their cgroup, and the task
 * that comes or is woken. */
struct event {
	u64 time, task, cgroup;
	s32 tid;
	s16 prio, other_prio;
	/* Of a switch, the state of the task that leaves; of a wake-up, the CPU of the woken task. */
	u32 state;
	u8 kind, preempted;
	u16 exit_state;
	u8 comm[16], other_comm[16];
};

#define EVENTS 64

/* Mapped by the loader. */
struct buffer {
	/* Events since the start, which is stored after each event. */
	u64 count;
	/* Whether a program is storing an event on this CPU, and the events of its interrupts, which are lost. */
	u64 busy, lost;
	u64 unused[4];
	/* The number of the first event, for the record. */
	u64 first;
	struct event events[EVENTS];
};

#define RECORD (8 + sizeof(struct event) * EVENTS)

DATA("maps") struct map settings = {ARRAY, 4, sizeof(struct settings), 1, MMAPABLE, 0};
DATA("maps") struct map buffers = {ARRAY, 4, sizeof(struct buffer), 0, MMAPABLE, 0};
DATA("maps") struct map events = {PERF_EVENT_ARRAY, 4, 4, 0, 0, 0};

INLINE struct settings *settings_for(u32 kind)
{
	u32 zero = 0;
	struct settings *set = map_lookup(&settings, &zero);
	return set && set->kinds >> kind & 1 ? set : 0;
}

/* Returns the CPU's buffer, unless this interrupts a program that stores an event. */
INLINE struct buffer *begin(void)
{
	u32 cpu = current_cpu();
	struct buffer *buffer = map_lookup(&buffers, &cpu);
	if (!buffer)
		return 0;
	if (buffer->busy) {
		buffer->lost++;
		return 0;
	}
	buffer->busy = 1;
	IN_ORDER();
	return buffer;
}

INLINE struct event *next_event(struct buffer *buffer, struct settings *set, u32 kind, u8 *other)
{
	struct event *event = &buffer->events[buffer->count % EVENTS];
	s32 prio = 0;
	event->time = now();
	event->task = current_pid_tgid();
	event->cgroup = current_cgroup();
	event->kind = kind;
	event->preempted = 0;
	event->exit_state = 0;
	read_kernel(&event->tid, 4, other + set->tid_at);
	read_kernel(&prio, 4, other + set->prio_at);
	event->other_prio = prio;
	read_kernel(event->other_comm, 16, other + set->comm_at);
	return event;
}

INLINE void end(void *ctx, struct buffer *buffer)
{
	/* With the result in use, readers on other CPUs see the event before the count. */
	u64 count = __sync_fetch_and_add(&buffer->count, 1) + 1;
	if (count % EVENTS == 0) {
		buffer->first = count - EVENTS;
		output(ctx, &events, CURRENT_CPU, &buffer->first, RECORD);
	}
	IN_ORDER();
	buffer->busy = 0;
}

SECTION("sched_switch") int on_switch(u64 *ctx)
{
	struct settings *set = settings_for(SWITCH);
	struct buffer *buffer = set ? begin() : 0;
	if (!buffer)
		return 0;
	u8 *leaves = (u8 *)ctx[1];
	struct event *event = next_event(buffer, set, SWITCH, (u8 *)ctx[2]);
	s32 prio = 0, exit_state = 0;
	read_kernel(&prio, 4, leaves + set->prio_at);
	event->prio = prio;
	current_comm(event->comm, 16);
	event->state = ctx[3];
	event->preempted = ctx[0];
	if (event->state & DEAD)
		read_kernel(&exit_state, 4, leaves + set->exit_state_at);
	event->exit_state = exit_state;
	end(ctx, buffer);
	return 0;
}

INLINE int wakes(u64 *ctx, u32 kind)
{
	struct settings *set = settings_for(kind);
	struct buffer *buffer = set ? begin() : 0;
	if (!buffer)
		return 0;
	u8 *woken = (u8 *)ctx[0];
	struct event *event = next_event(buffer, set, kind, woken);
	read_kernel(&event->state, 4, woken + set->cpu_at);
	end(ctx, buffer);
	return 0;
}

SECTION("sched_wakeup") int on_wakeup(u64 *ctx)
{
	return wakes(ctx, WAKEUP);
}

SECTION("sched_waking") int on_waking(u64 *ctx)
{
	return wakes(ctx, WAKING);
}

SECTION("sched_wakeup_new") int on_wakeup_new(u64 *ctx)
{
	return wakes(ctx, WAKEUP_NEW);
}

char DATA("license") licence[] = "Dual MIT/GPL";
