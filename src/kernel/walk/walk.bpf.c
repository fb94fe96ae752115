/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Walks the user stack of the sampled task by tables of rows (rule.rs says what a row is), and by frame pointers
 * where there is none. It is attached to sampling events and writes what it found as the record before the sample. For
 * tracepoints' samples it is attached to the tracepoint itself, not to the perf event, whose program would also decide
 * about the samples of other perf users. The record is then before or behind the sample: the tracepoint calls whoever
 * came first.
 *
 * Two things keep the verifier's work small on all kernels: what changes from frame to frame stands in a map's value,
 * of which nothing is known, and the searches have no branches. Compiled by `src/kernel/walk/build`; no header is
 * included, so that the object is the same everywhere.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
/* Without types of their own: the loader makes maps from what they hold. */
#define DATA(name) __attribute__((section(name), used, nodebug))
#define INLINE static inline __attribute__((always_inline))

/* Helpers (bpf-helpers(7)). */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const output)(void *ctx, void *map, u64 flags, void *data, u64 size) = (void *)25;
static u64 (*const current_address)(void) = (void *)35;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static void *(*const current_task)(void) = (void *)158;
static void *(*const task_regs)(void *task) = (void *)175;
static long (*const tell)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static long (*const loop)(u32 rounds, void *step, void *ctx, u64 flags) = (void *)181;

#define CURRENT_CPU 0xffffffffull
/* Whoever reads a ring wakes up. */
#define WAKE 2

/* What the loader makes of each map: type, key and value in bytes, entries, flags; sizes of inner maps' values. */
struct map {
	u32 type, key, value, entries, flags, inner;
};

#define HASH 1
#define ARRAY 2
#define PERF_EVENT_ARRAY 4
#define PERCPU_ARRAY 6
#define ARRAY_OF_MAPS 12
#define RING 27

/* Rows in a chunk, of 8 bytes each, and above them the pc of each first row of 64. */
#define ROWS (1 << 20)
#define BLOCK 64
#define BLOCKS (ROWS / BLOCK)

struct chunk {
	u64 row[ROWS];
	u32 first_pc[BLOCKS];
};

/* A mapping of a process: the pc of its rows is its address less the bias. Files that take turns at one place have a
 * mapping each, next to each other, with equal bounds. `word` is in memory at `mark` while this mapping's file is
 * mapped; a mark of 0 is not checked. */
struct mapping {
	u64 start, end, bias;
	u32 chunk, first, n;
	/* A mark that cannot be read counts as another file's. */
	u32 strict;
	u64 mark, word;
};

/* Mappings of one place that are tried. */
#define TURNS 8

/* Mappings in a piece of the pool. */
#define MAPPINGS (1 << 15)

struct piece {
	struct mapping mapping[MAPPINGS];
};

#define RUNTIMES 1024
/* Where a process has its mappings, sorted, and the number of its interpreter; 0 without one. */
struct space {
	u32 piece, first, n, runtime;
};

/* How to walk the frames of an interpreter (runtime.rs, LanguageRuntime, has the same fields). A frame leads to the next outer one
 * and to the code of its function; the offsets of these and of what identifies the code are in bytes. */
struct runtime {
	/* The functions that execute the language's code: start and length. */
	u64 loop[2][2];
	/* The interpreter's own code. */
	u64 text, text_len;
	/* The type of code objects: memory of another type ends the chain. Of Ruby, where the list of symbols is. */
	u64 code_type;
	/* Where all threads have the pointer to the innermost frame, if it is not in a thread's state. */
	u64 global;
	/* Names are known by this and the code. */
	u32 id;
	/* Where the kernel keeps the thread pointer of a task, and the thread's state below or above that. */
	u32 thread_pointer;
	s32 slot;
	/* Where the state has the thread's own number, and that less the thread pointer. */
	u16 thread_id;
	s16 self;
	/* From the state to the innermost frame: one pointer or two. */
	u16 hops[2];
	u8 frame_size, code, next, instruction;
	/* These bits (mask) of this byte of a frame are at least that in the outermost frame of a call from C; such a frame
	 * may have no code. */
	u8 entry, entry_least, shim, index;
	u8 code_size, first_line, arguments, flags;
	u8 name, file, start, kind_shift;
	u8 ascii, wide, entry_mask;
	/* Bytes of a string from its length to its state; those of PHP and Ruby have no state. */
	u8 head;
	/* Whose functions these are. */
	u8 kind;
	/* Bits of a first line below its number. */
	u8 line_shift;
	/* The name of a package of Perl is behind its array of symbols. */
	u8 name_apart, unused;
};

#define PYTHON 0
#define PHP 1
/* Frames lie next to each other, `next` bytes apart, and have no fields for functions that are written in C. */
#define RUBY 2
/* Frames lie next to each other in stacks that are a list; those of functions have this type. */
#define PERL 3

/* The heaps of code of a virtual machine for Java (code_cache.rs, CodeCache, has the same fields): where it may have
 * code, where its interpreter is, and each heap with its map of segments. A byte of that counts back to the first of
 * a block. The length is 0 where the number is of another kind of interpreter. */
#define HEAPS 3
struct code_heap {
	u64 start, len, segments;
};
struct code_cache {
	u64 start, len, interpreter, interpreter_len;
	struct code_heap heap[HEAPS];
	u32 id;
	/* From a block to its blob, and from a blob to the number of its compilation. */
	u16 blob, compilation;
	/* Fields of a blob; where code begins is a pointer or an offset of 32 bits. */
	u8 size, frame_size, complete, complete_is_short, code, code_is_offset;
	/* From a method to its constant part, and the size of that before the bytecode. */
	u8 constant, constant_size;
	u8 segment_shift;
	/* The way to the names of a method and of its class, from the constant part, a pool, a class and a symbol. */
	u8 name, symbol_length, symbol_body;
	u16 pool_size, pool_holder, class_name, unused[3];
};

/* How an engine of JavaScript describes the functions of its frames, which have frame pointers (script_engine.rs,
 * ScriptEngine, has the same fields). Offsets in bytes: of the type in a map; of a function's shared part; in that, of
 * what has its name, of its script and of its number there; of a script's own number. The types of functions. The ID is
 * 0 where the number is of another kind of runtime. */
struct engine {
	u32 id;
	u16 first_type, last_type;
	u8 type, shared, name, script, literal, script_id, unused[2];
};

/* Who asked last, of those whose numbers have the same low bits, when, and how long it is not to ask again: twice as
 * long each time, unless it had no reason to for much longer. */
#define ASKERS 4096
#define PAUSE 2000000ull
#define LONG_PAUSE 1000000000ull
struct asker {
	u64 tgid, time, pause;
};

/* Bytes of the ring of those who ask, of eight and a header each. */
#define ASKS (1 << 16)

#define FRAMES 127
/* The same where an interpreter has native frames between those of its language, and the words of both. */
#define MIXED_FRAMES 512
#define WORDS 1024
/* Frames of the language that are looked at: a function of Perl has more for its loops and blocks. */
#define MIXED_ROUNDS (3 * WORDS / 2)
/* Bytes of names in a record: the start of a function's, and the end of its file's. */
#define NAME_BYTES 96
#define FILE_BYTES 120
#define NAME_WORDS (4 + (NAME_BYTES + FILE_BYTES) / 8)
/* Names in a record at most. */
#define NAMES 16

/* The upper byte of words that are not an address alone: a frame's code, and then its cookie and instruction; a
 * function's names; the interpreter's id; an address in the interpreter's own code. */
#define TAG 56
#define FRAME_TAG (1ull << TAG)
#define NAME_TAG (2ull << TAG)
#define RUNTIME_TAG (3ull << TAG)
#define TEXT_TAG (4ull << TAG)
/* A frame in a blob of the virtual machine, and then its compilation and the pc in the blob; the constant part of a
 * method that is interpreted, and then its cookie and the bytecode's index. */
#define BLOB_TAG (5ull << TAG)
#define METHOD_TAG (6ull << TAG)
/* The shared part of a function of JavaScript whose frame is that of the address before, and then its cookie and a hash
 * of the code there, and that address; both are 0 in the engine's own file. The bit of an address that was sampled. */
#define SCRIPT_TAG (7ull << TAG)
#define SAMPLED_HERE (1ull << 55)
#define ADDRESS_BITS ((1ull << TAG) - 1)

/* Bytes that a blob's head is read by, and steps back to its first segment. */
#define BLOB_HEAD 128
#define HOPS 12

/* Functions whose names were written, by the low bits of a hash. */
#define SEEN (1 << 14)
struct seen {
	u64 tag[SEEN];
};
#ifdef ARM64
#define REGISTERS 32
#define FP 29
#define LR 30
#define SP 31
/* What a return address may have beside the address: a signature, in the bits above. */
#define ADDRESS(word) ((word) & s->address)
#define CALL 4
/* Bytes of the stack that a return address takes. */
#define SLOT 0
#else
#define REGISTERS 16
#define FP 6
#define SP 7
#define ADDRESS(word) (word)
#define CALL 1
#define SLOT 8
#endif

/* What the loader says of the machine, and whether stacks are copied: then the program does not walk, but writes what
 * return addresses the copies lack. At tracepoints it walks only tasks with perf events of their own, if `events` is
 * the offset of these in a task. */
struct settings {
	u64 address;
	u32 copies, events;
};

/* System calls, by number, and those that are traced. */
#define CALLS 1024

/* Where the kernel keeps the functions of a task whose return is probed, as offsets in its types; all 0 where that is
 * not known. The first is of the task, and leads to what uprobes keep of it; that leads to the innermost function.
 * A function has where its return address was on the stack, what that was, and the function that it is called from.
 * The last three lead from the task to the page that the return address is replaced by. */
struct pending {
	u16 uprobes, innermost, stack, address, outer, mm, area, page;
};

/* Offsets in the kernel's types: of a task's parent, process and memory; of the start of code and of the stack in its
 * memory. All 0 where these are not known. */
struct family {
	u16 parent, tgid, mm, code, stack, unused[3];
};

/* Bytes at the beginning of that page which functions return to. */
#define TRAMPOLINE 128
/* The kernel probes no more nested calls of a task. */
#define MOST_PENDING 64

/* One walk. */
struct state {
	/* The task. */
	u64 owner;
	u64 pc, sp, fp;
	/* How much of a call lies before the pc: nothing where it was interrupted. */
	u64 back;
	/* Whether registers are known beside these: where the task was interrupted. */
	u64 fresh;
	/* The pc is from a frame pointer. On AArch64 sp is then but a bound: records lie anywhere in their frames. */
	u64 by_fp;
	/* The mapping that the last pc was in. */
	u64 start, len, bias;
	u32 chunk, first, n;
	struct space space;
	u64 known;
	/* The innermost function that is not yet left whose return is probed; where it returns to instead. */
	u64 pending, trampoline;
	/* The bits of an address. */
	u64 address;
	/* The code is of 32 bits (x86): a word has four bytes, and rows count these. */
	u64 narrow;
	u64 pair[2];
	/* The innermost frame of the interpreter that is not yet written, where frames end that lie next to each other, and
	 * the code of the last that is written. */
	u64 frame, bound, code, cookie;
	/* The next stack of frames of Perl. */
	u64 outer;
	/* What was read of the next frame. */
	u64 next_code, instruction;
	/* The process's interpreter, whether its id is written, whether its frames come next, whether there are no more
	 * native frames, and how many names may be written. */
	u32 runtime;
	u8 named, in_run, done, names;
	/* The range of code of a virtual machine; and the last blob with a frame of its own. */
	u64 code_start, code_len, blob, blob_len;
	u32 blob_frame, compilation;
	/* Whether the process has an engine of JavaScript. */
	u64 engine;
	/* Native frames. */
	u64 frames, most;
	u64 object[32];
	/* By their DWARF numbers. */
	u64 reg[REGISTERS];
	u64 context[REGISTERS + 1];
	/* What is written begins behind this. */
	u32 unused;
	u8 why, flags;
	u16 depth;
	u64 ip[WORDS + NAME_WORDS];
};

/* Why a walk ended. */
#define COMPLETE 1
#define FULL 2
#define FAULT 3
#define NOWHERE 4
#define NO_FRAME 5
#define BACKWARDS 6
#define UNSUPPORTED 7
#define LAST_FRAME 8
/* Not a walk: the page that functions return to whose return is probed, then of each such function, the innermost first,
 * where its return address was on the stack and what that was. */
#define RETURNS 9

/* What a walk lacked. */
#define PROCESS_UNKNOWN 1
#define MAPPING_UNKNOWN 2
#define HAD_NO_ROW 4
/* Of a tracepoint, in the same byte. */
#define AT_TRACEPOINT 8
/* The code is of 32 bits. */
#define NARROW 16
/* The words may be tagged: the process has an interpreter. */
#define MIXED 32
/* The stack of a wait (waits.bpf.c). */
#define OF_WAIT 64

/* A walk at a tracepoint or probe may be interrupted by a sample: each has its own state. A walk at a probe may also be
 * interrupted by another task's: it is lost then. Waits begin in context switches (waits.bpf.c). */
#define SAMPLED 0
#define TRACED 1
#define PROBED 2
#define WAITED 3

/* Kinds of rows (rule.rs). */
#define K_GAP 0
#define K_SP 1
#define K_FP 2
#define K_STUB 3
#define K_SIGNAL 4
#define K_END 5
#define K_AT_SP 6
#define K_AT_FP 7
#define K_REGISTER 8
#define K_CALLER_IN 9
#define K_LINK 10
#define K_BESIDE_SP 11
#define K_BESIDE_FP 12
#define K_ALONE_SP 13
#define K_ALONE_FP 14
/* Kinds 11 to 14 with this: what is saved is counted from sp or fp, and not from the CFA. */
#define K_FAR 16
/* As K_SP, and so many times half a MiB more. */
#define K_SP_WIDE 16
#define K_SP_WIDEST 26
/* Another stack is left for that of a goroutine of Go. */
#define K_GO_CALL 31

struct map DATA("maps") states = { PERCPU_ARRAY, 4, sizeof(struct state), 4, 0, 0 };
struct map DATA("maps") spaces = { HASH, 4, sizeof(struct space), 1 << 15, 0, 0 };
struct map DATA("maps") pieces = { ARRAY_OF_MAPS, 4, 4, 64, 0, sizeof(struct piece) };
struct map DATA("maps") chunks = { ARRAY_OF_MAPS, 4, 4, 64, 0, sizeof(struct chunk) };
struct map DATA("maps") settings = { ARRAY, 4, sizeof(struct settings), 1, 0, 0 };
struct map DATA("maps") calls = { ARRAY, 4, 4, CALLS, 0, 0 };
struct map DATA("maps") pendings = { ARRAY, 4, sizeof(struct pending), 1, 0, 0 };
struct map DATA("maps") families = { ARRAY, 4, sizeof(struct family), 1, 0, 0 };
struct map DATA("maps") askers = { ARRAY, 4, sizeof(struct asker), ASKERS, 0, 0 };
struct map DATA("maps") runtimes = { ARRAY, 4, sizeof(struct runtime), RUNTIMES, 0, 0 };
struct map DATA("maps") code_caches = { ARRAY, 4, sizeof(struct code_cache), RUNTIMES, 0, 0 };
struct map DATA("maps") engines = { ARRAY, 4, sizeof(struct engine), RUNTIMES, 0, 0 };
struct map DATA("maps") seen = { ARRAY, 4, sizeof(struct seen), 1, 0, 0 };
struct map DATA("maps") asks = { RING, 0, 0, ASKS, 0, 0 };
struct map DATA("maps") events = { PERF_EVENT_ARRAY, 4, 4, 0, 0, 0 };

/* All ones where a <= b, both below 2^63, in a way that no compiler turns into a branch. */
INLINE u64 up_to(u64 a, u64 b)
{
	u64 mask = a - b - 1;

	asm volatile("%0 s>>= 63" : "+r"(mask));
	return mask;
}

/* Whether the file of a mapping is the one that is mapped now. */
INLINE int is_mapped(struct state *s, struct mapping *m)
{
	if (!m->mark)
		return 1;
	if (!read_user(s->pair, 8, (const void *)m->mark))
		return s->pair[0] == m->word;
	if (m->strict)
		return 0;
	/* The page is not in memory: further reads would fail, too, and each takes longer than the rest of a frame. */
	m->mark = 0;
	return 1;
}

/* Finds the mapping that an address is in; one of no length where there is none. */
INLINE void find(struct state *s, u64 at)
{
	u32 which = s->space.piece, zero = 0;
	u64 lo = s->space.first, len = s->space.n, half;
	void *inner;
	struct piece *piece;
	struct mapping *m;

	s->len = 0;
	inner = map_lookup(&pieces, &which);
	if (!inner)
		return;
	piece = map_lookup(inner, &zero);
	if (!piece)
		return;
#pragma unroll
	for (int i = 0; i < 13; i++) {
		half = len >> 1;
		m = &piece->mapping[(lo + half) & (MAPPINGS - 1)];
		lo += half & up_to(m->start, at);
		len -= half;
	}
	/* The last of one place is tried first. */
#pragma unroll
	for (int i = 0; i < TURNS; i++) {
		m = &piece->mapping[(lo - i) & (MAPPINGS - 1)];
		if (lo < s->space.first + (u64)i || at - m->start >= m->end - m->start)
			return;
		if (is_mapped(s, m))
			break;
		if (i == TURNS - 1)
			return;
	}
	s->start = m->start;
	s->len = m->end - m->start;
	s->bias = m->bias;
	s->chunk = m->chunk;
	s->first = m->first;
	s->n = m->n;
}

/* The row of a pc in the mapping at hand: first the block of rows, then the row in it. */
INLINE u32 rule_at(struct state *s, u64 pc)
{
	u32 which = s->chunk, zero = 0;
	u64 lo = s->first / BLOCK, len = (s->n + BLOCK - 1) / BLOCK, end = (u64)s->first + s->n, half, row;
	void *inner;
	struct chunk *chunk;

	if (!s->n || pc >> 32)
		return K_GAP;
	inner = map_lookup(&chunks, &which);
	if (!inner)
		return K_GAP;
	chunk = map_lookup(inner, &zero);
	if (!chunk)
		return K_GAP;
#pragma unroll
	for (int i = 0; i < 14; i++) {
		half = len >> 1;
		lo += half & up_to(chunk->first_pc[(lo + half) & (BLOCKS - 1)], pc);
		len -= half;
	}
	lo *= BLOCK;
	/* Rows of the block, BLOCK of them or those that are left. */
	len = end - lo;
	len = BLOCK + ((len - BLOCK) & up_to(len, BLOCK));
#pragma unroll
	for (int i = 0; i < 6; i++) {
		half = len >> 1;
		lo += half & up_to((u32)chunk->row[(lo + half) & (ROWS - 1)], pc);
		len -= half;
	}
	row = chunk->row[lo & (ROWS - 1)];
	return (u32)row <= pc ? row >> 32 : K_GAP;
}

INLINE long end(struct state *s, u8 why)
{
	s->why = why;
	return 1;
}

INLINE int get(struct state *s, u64 from, u32 size)
{
	return read_user(s->pair, size, (const void *)from);
}

/* The caller, whose frame a frame pointer leads to. */
INLINE long by_frame_pointer(struct state *s)
{
	u64 fp = s->fp;

	s->by_fp = 1;
	if (!fp)
		return end(s, LAST_FRAME);
#ifndef ARM64
	if (s->narrow) {
		if (fp & 3 || fp - s->sp >= 4 << 20)
			return end(s, NO_FRAME);
		if (get(s, fp, 8))
			return end(s, FAULT);
		s->sp = fp + 8;
		s->fp = (u32)s->pair[0];
		s->pc = s->pair[0] >> 32;
		return s->pc ? 0 : end(s, LAST_FRAME);
	}
#endif
	if (fp & 7 || fp - s->sp >= 4 << 20)
		return end(s, NO_FRAME);
	if (get(s, fp, 16))
		return end(s, FAULT);
	s->sp = fp + 16;
	s->fp = s->pair[0];
	s->pc = ADDRESS(s->pair[1]);
	return s->pc ? 0 : end(s, LAST_FRAME);
}

#ifdef ARM64
#define SP_IS_KNOWN(s) (!(s)->by_fp)
#else
#define SP_IS_KNOWN(s) 1
#endif

/* What the signal handler's frame has of the interrupted code; of 32 bits it lies so many words above sp. */
INLINE long interrupted(struct state *s, u64 above)
{
#ifdef ARM64
	/* The frame record's signal information, then the context: x0 to x30, sp, pc. */
	if (read_user(s->context, 33 * 8, (const void *)(s->sp + 312)))
		return end(s, FAULT);
#pragma unroll
	for (int i = 0; i < 32; i++)
		s->reg[i] = s->context[i];
	s->pc = s->context[32];
#else
	/* r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip. */
	static const u8 number[16] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7 };

	if (s->narrow) {
		/* edi, esi, ebp, esp, ebx, edx, ecx, eax behind four segments; eip behind two words more. */
		static const u8 own[8] = { 5, 4, 6, 7, 3, 1, 2, 0 };
		u32 *half = (u32 *)s->context;

		if (read_user(s->context, 15 * 4, (const void *)(s->sp + above * 4)))
			return end(s, FAULT);
#pragma unroll
		for (int i = 0; i < 8; i++)
			s->reg[own[i]] = half[4 + i];
		s->pc = half[14];
	} else {
		if (read_user(s->context, 17 * 8, (const void *)(s->sp + 40)))
			return end(s, FAULT);
#pragma unroll
		for (int i = 0; i < 16; i++)
			s->reg[number[i]] = s->context[i];
		s->pc = s->context[16];
	}
#endif
	s->fp = s->reg[FP];
	s->sp = s->reg[SP];
	s->back = 0;
	s->fresh = 1;
	s->by_fp = 0;
	return s->pc ? 0 : end(s, NOWHERE);
}

#ifdef ARM64
/* What a signal's handler returns to, if its code has no row: mov x8, #139; svc #0. */
INLINE int is_trampoline(struct state *s)
{
	return !get(s, s->pc, 8) && s->pair[0] == 0xd4000001d2801168ull;
}

/* The caller, by the rule of a row. */
INLINE long by_rule(struct state *s, u32 rule, u64 fresh)
{
	u64 n = (u64)(rule >> 16) * 8, above = (u64)(u8)(rule >> 8) * 8, base, at;
	u8 kind = rule & ~K_FAR;

	if (!(rule & K_FAR))
		above = n + (u64)((s64)(s8)(rule >> 8) * 8);

	/* What the innermost function has in registers, others have saved: a table that says otherwise is wrong there. */
	if (kind < K_LINK || kind > K_ALONE_FP || (kind == K_LINK && (!fresh || s->by_fp)))
		return by_frame_pointer(s);
	if (kind == K_LINK) {
		if (above != n && read_user(&s->fp, 8, (const void *)(s->sp + above)))
			return end(s, FAULT);
		s->sp += n;
		s->pc = ADDRESS(s->reg[LR]);
		return s->pc ? 0 : end(s, NOWHERE);
	}
	base = kind == K_BESIDE_FP || kind == K_ALONE_FP ? s->fp : s->sp;
	if (s->by_fp) {
		if (kind == K_ALONE_SP || kind == K_ALONE_FP)
			return by_frame_pointer(s);
		/* Who called code that has no table, but a record, has one, too. */
		base = s->fp - above;
		if (!s->fp)
			return end(s, LAST_FRAME);
		if (s->fp & 7 || s->fp - s->sp >= 4 << 20)
			return end(s, NO_FRAME);
	}
	at = base + above;
	if (base + n <= s->sp)
		return end(s, BACKWARDS);
	if (kind == K_ALONE_SP || kind == K_ALONE_FP) {
		if (read_user(&s->pair[1], 8, (const void *)at))
			return end(s, FAULT);
	} else {
		if (get(s, at, 16))
			return end(s, FAULT);
		s->fp = s->pair[0];
	}
	s->by_fp = 0;
	s->sp = base + n;
	s->pc = ADDRESS(s->pair[1]);
	return s->pc ? 0 : end(s, NOWHERE);
}
#else
/* A word of the stack. */
INLINE int get_word(struct state *s, u64 *to, u64 from)
{
	u32 half;

	if (!s->narrow)
		return read_user(to, 8, (const void *)from);
	if (read_user(&half, 4, (const void *)from))
		return 1;
	*to = half;
	return 0;
}

/* The caller, by the rule of a row. */
INLINE long by_rule(struct state *s, u32 rule, u64 fresh)
{
	u64 word = s->narrow ? 4 : 8;
	u64 what = rule >> 16, n = what * word, lower = (what & 0xfff) * word, upper = what >> 12;
	u64 saved = (u64)((s64)(s8)(rule >> 8)) * word, cfa, fp_at = 0, ra_at = 0, pointer;
	u8 kind = rule;

	s->by_fp = 0;
	if (kind == K_SP)
		cfa = s->sp + n;
	else if (kind == K_FP)
		cfa = s->fp + n;
	else if (kind == K_AT_SP || kind == K_AT_FP) {
		pointer = kind == K_AT_SP ? s->sp : s->fp;
		if (get_word(s, &s->pair[0], pointer + (u64)((s64)(what << 52) >> 52) * word))
			return end(s, FAULT);
		cfa = s->pair[0] + upper * word;
	} else if (kind == K_REGISTER) {
		if (!fresh)
			return end(s, UNSUPPORTED);
		cfa = s->reg[upper & 15] + lower;
	} else if (kind == K_CALLER_IN)
		cfa = s->sp + lower;
	else if (kind >= K_SP_WIDE && kind <= K_SP_WIDEST)
		cfa = s->sp + n + ((u64)(kind - K_SP_WIDE + 1) << 16) * word;
	else if (kind == K_STUB) {
		cfa = s->sp + word + ((s->pc & 15) >= (u8)(rule >> 8) ? word : 0);
		saved = 0;
	} else if (kind == K_GO_CALL) {
		cfa = s->fp + 16;
		if (n) {
			/* How far below the end of its stack, and the goroutine; or where, and none. */
			if (get(s, s->sp + n - 8, 16))
				return end(s, FAULT);
			cfa = s->pair[0] + 8;
			if (s->pair[1]) {
				if (get(s, s->pair[1] + 8, 8))
					return end(s, FAULT);
				cfa = s->pair[0] - cfa + 16;
			}
		}
		/* It may be on either side. */
		s->sp = 0;
	}
	else
		return end(s, UNSUPPORTED);

	if (saved == word)
		fp_at = s->fp;
	else if (saved)
		fp_at = cfa + saved;
	if (kind == K_CALLER_IN) {
		if (!fresh)
			return end(s, UNSUPPORTED);
		s->pair[1] = s->reg[upper & 15];
	} else
		ra_at = cfa - word;

	/* Leaves may have their caller's stack pointer. */
	if (cfa < s->sp || (cfa == s->sp && !fresh))
		return end(s, BACKWARDS);
	if (!s->narrow && fp_at && ra_at == fp_at + 8) {
		if (get(s, fp_at, 16))
			return end(s, FAULT);
		s->fp = s->pair[0];
	} else {
		if (ra_at && get_word(s, &s->pair[1], ra_at))
			return end(s, FAULT);
		if (fp_at && get_word(s, &s->fp, fp_at))
			return end(s, FAULT);
	}
	s->sp = cfa;
	s->pc = ADDRESS(s->pair[1]);
	return s->pc ? 0 : end(s, NOWHERE);
}
#endif

/* A word of the kernel's memory; 0 where there is none. */
INLINE u64 kernel_word(u64 at)
{
	u64 word = 0;

	return read_kernel(&word, 8, (const void *)at) ? 0 : word;
}

/* Finds the functions of the task whose return is probed. */
INLINE void find_pending(struct state *s)
{
	u32 zero = 0;
	struct pending *p = map_lookup(&pendings, &zero);
	u64 task, uprobes;

	s->pending = 0;
	if (!p || !p->uprobes)
		return;
	task = current_address();
	uprobes = kernel_word(task + p->uprobes);
	if (!uprobes)
		return;
	s->pending = kernel_word(uprobes + p->innermost);
	if (s->pending)
		s->trampoline = kernel_word(kernel_word(kernel_word(task + p->mm) + p->area) + p->page);
}

/* Where a pc is the one that probed functions return to: the return address that it stands for. Not 0 where the walk
 * is to end, or to look again. */
INLINE long unprobe(struct state *s, long *again)
{
	u32 zero = 0;
	struct pending *p = map_lookup(&pendings, &zero);
	u64 word = s->narrow ? 4 : SLOT, stack, address;

	*again = 0;
	if (!p || !s->pending)
		return end(s, NOWHERE);
	stack = kernel_word(s->pending + p->stack);
	address = kernel_word(s->pending + p->address);
	if (s->depth && stack < s->sp - word) {
		/* Left already, or by another way than its end. */
		s->pending = kernel_word(s->pending + p->outer);
		*again = 1;
		return 0;
	}
	if (!s->depth) {
		/* It is about to return. */
		s->ip[0] = s->pc;
		s->depth = 1;
		s->sp = stack + word;
	}
	s->pc = ADDRESS(address);
	s->fresh = 0;
	s->back = CALL;
	return 0;
}

/* One function whose return is probed. */
static long collect(u32 round, void *which)
{
	u32 zero = 0;
	struct state *s = map_lookup(&states, which);
	struct pending *p = map_lookup(&pendings, &zero);

	if (!s || !p || !s->pending)
		return 1;
	s->ip[s->depth & 127] = kernel_word(s->pending + p->stack);
	s->ip[(s->depth + 1) & 127] = kernel_word(s->pending + p->address);
	s->depth += 2;
	s->pending = kernel_word(s->pending + p->outer);
	return 0;
}

/* Multiplies the hash of what identifies code. */
INLINE u64 mix(u64 hash, u64 word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull ^ hash >> 29;
}

/* A field of what was read last. */
INLINE u64 field(struct state *s, u8 at)
{
	return *(u64 *)((u8 *)s->object + (at & 0xf8));
}

INLINE u32 half(struct state *s, u8 at)
{
	return *(u32 *)((u8 *)s->object + (at & 0xfc));
}

/* Finds the code of the process's virtual machine. */
INLINE void find_code(struct state *s)
{
	u32 number = s->runtime;
	struct code_cache *c = map_lookup(&code_caches, &number);
	struct engine *e = map_lookup(&engines, &number);

	if (e && e->id) {
		s->engine = 1;
		s->most = MIXED_FRAMES;
		s->flags |= MIXED;
		return;
	}
	if (!c || !c->len)
		return;
	s->code_start = c->start;
	s->code_len = c->len;
	s->most = MIXED_FRAMES;
	s->flags |= MIXED;
}

/* Finds the innermost frame of Ruby in a thread: an execution context begins with its stack, the number of its words,
 * and that frame. */
INLINE void find_ruby(struct state *s, struct runtime *r, u64 thread)
{
	u64 context = s->pair[0];

	if (!context || read_user(s->object, 24, (const void *)context))
		return;
	/* What all threads share is the context of the thread that has the lock. */
	if (r->global) {
		if (get(s, context + r->hops[0], 8) || get(s, s->pair[0] + r->thread_id, 8))
			return;
		if (s->pair[0] != thread + r->self)
			return;
	}
	if (s->object[1] >> 28 || s->object[2] - s->object[0] >= 8 * s->object[1])
		return;
	s->bound = s->object[0] + 8 * s->object[1];
	s->frame = s->object[2];
}

/* Finds the innermost frame of a stack of Perl, and the next stack: 0 if it is that of the program. */
#define PERL_MAIN 1
INLINE void enter_stack(struct state *s, struct runtime *r, u64 stack)
{
	s->frame = s->outer = 0;
	if (read_user(s->object, 48, (const void *)stack))
		return;
	s->bound = s->object[1];
	s->frame = s->bound + (s64)(s32)s->object[4] * r->next;
	if (s->object[5] >> 32 != PERL_MAIN)
		s->outer = s->object[2];
}

/* Finds the innermost frame of the interpreter in the current thread. */
INLINE void find_frame(struct state *s)
{
	u32 number = s->runtime;
	struct runtime *r;
	u64 thread;

	s->frame = 0;
	if (!number)
		return;
	r = map_lookup(&runtimes, &number);
	if (!r)
		return;
	if (!r->id)
		return find_code(s);
	s->most = MIXED_FRAMES;
	s->flags |= MIXED;
	if (r->global && r->kind != RUBY) {
		s->frame = get(s, r->global, 8) ? 0 : s->pair[0];
		if (r->kind != PERL || !s->frame)
			return;
		/* Perl without threads has the innermost stack there: no thread but the main one executes it. */
		if ((u32)s->owner == s->owner >> 32)
			enter_stack(s, r, s->frame);
		else
			s->frame = 0;
		return;
	}
	thread = kernel_word(current_address() + r->thread_pointer);
	if (get(s, r->global ? r->global : thread + r->slot, 8) || !s->pair[0])
		return;
	if (r->kind == RUBY)
		return find_ruby(s, r, thread);
	if (r->kind == PERL) {
		if (!get(s, s->pair[0] + r->hops[0], 8))
			enter_stack(s, r, s->pair[0]);
		return;
	}
	/* The state must be this thread's own. */
	s->frame = s->pair[0];
	if (get(s, s->frame + r->thread_id, 8) || s->pair[0] != thread + r->self || get(s, s->frame + r->hops[0], 8)) {
		s->frame = 0;
		return;
	}
	s->frame = s->pair[0];
	if (r->hops[1] != 0xffff && s->frame)
		s->frame = get(s, s->frame + r->hops[1], 8) ? 0 : s->pair[0];
}

/* The bits of Ruby's objects that have their type, those of types, and that of strings whose characters are elsewhere and
 * of lists whose elements are not. Objects of its own have another type in the bits below that one. */
#define TYPE_BITS 0x1f
#define IS_STRING 5
#define IS_LIST 7
#define OWN_TYPE_BITS 0xf01f
#define IS_METHOD 0x601a
#define IS_CODE 0x701a
#define PLACE_BIT (1 << 13)

/* The kind of a string of bytes, in place of a state. */
#define BYTES (1 | 8 | 16)

/* The length of a string of Ruby, and where its characters are; not 0 if it is not one. Short ones follow the head, which
 * has their length in its bits if there is no word for it. */
INLINE long ruby_string(struct state *s, struct runtime *r, u64 at)
{
	u64 flags;

	if (read_user(s->context, 32, (const void *)at))
		return 1;
	flags = s->context[0];
	s->context[0] = s->context[2];
	s->context[1] = s->context[3];
	if (!(flags & PLACE_BIT)) {
		s->context[1] = at + r->ascii;
		if (r->ascii == 16)
			s->context[0] = flags >> 14 & 31;
	}
	s->context[2] = BYTES;
	return (flags & TYPE_BITS) != IS_STRING;
}

/* Reads the head of a string, and finds where its characters are. Returns the bits of its kind, 0 if it cannot be read. */
INLINE u64 head_of(struct state *s, struct runtime *r, u64 at)
{
	if (r->kind == RUBY) {
		if (ruby_string(s, r, at))
			return 0;
	} else if (r->kind == PERL) {
		/* A hash, and the length. */
		if (get(s, at, 8))
			return 0;
		s->context[0] = s->pair[0] >> 32;
		s->context[1] = at + 8;
		s->context[2] = BYTES;
	} else {
		if (read_user(s->context, r->head & 31, (const void *)(at + 16)))
			return 0;
		if (r->kind == PHP)
			s->context[2] = BYTES;
		s->context[1] = at + (s->context[2] >> r->kind_shift & 16 ? r->ascii : r->wide);
	}
	return s->context[2] >> r->kind_shift | 1ull << 63;
}

/* Length and state of a string; where its characters are, 0 if that is not known. */
INLINE u64 string(struct state *s, struct runtime *r, u64 at, u64 *bytes, u64 *head)
{
	u64 kind = head_of(s, r, at);

	if (!kind)
		return 0;
	*head = s->context[2] << 32 | (u32)s->context[0];
	*bytes = s->context[0] << ((kind & 7) >> 1);
	if (!(kind & 8) || s->context[0] >> 24)
		return 0;
	return s->context[1];
}

/* A hash of a string's length and first characters: another may lie at its address later. */
INLINE u64 content(struct state *s, struct runtime *r, u64 at)
{
	u64 kind = head_of(s, r, at), n, hash;

	if (!kind)
		return 0;
	n = hash = s->context[0] << ((kind & 7) >> 1);
	n = n > 64 ? 64 : n;
	/* The verifier needs the mask below. */
	asm volatile("" : "+r"(n));
#pragma unroll
	for (int i = 0; i < 8; i++)
		s->context[3 + i] = 0;
	read_user(&s->context[3], n & 127, (const void *)s->context[1]);
#pragma unroll
	for (int i = 0; i < 8; i++)
		hash = mix(hash, s->context[3 + i]);
	return hash;
}

/* Finds the name of the package of a function of Perl that was read last: 0 if it has none. Not 0 if it cannot be read. */
INLINE long package_name(struct state *s, struct runtime *r)
{
	u64 at;

	s->pair[0] = 0;
	if (!s->object[4])
		return 0;
	/* Its body, and its array of symbols. */
	if (read_user(s->context, 24, (const void *)s->object[4]))
		return 1;
	at = s->context[0] + 32;
	if (r->name_apart) {
		if (get(s, s->context[0] + 24, 8))
			return 1;
		at = s->context[2] + 8 * (s->pair[0] + 1);
	}
	if (read_user(s->context, 32, (const void *)at))
		return 1;
	s->pair[0] = s->context[0];
	/* One name, or so many. */
	return s->context[3] >> 32 && get(s, s->context[0], 8);
}

/* Writes the class or the package of a function, if it has one, into the second half of the name; not 0 if it cannot be
 * read. */
#define CLASS_BYTES (NAME_BYTES / 2)
INLINE long name_class(struct state *s, struct runtime *r, u64 *to)
{
	u64 at, n, head;

	to[2] = (u32)to[2];
	if (r->kind == PERL) {
		if (package_name(s, r))
			return 1;
		if (!s->pair[0])
			return 0;
	} else {
		if (!s->object[2])
			return 0;
		/* zend_class_entry: its type, and its name. */
		if (get(s, s->object[2] + 8, 8))
			return 1;
	}
	at = string(s, r, s->pair[0], &n, &head);
	if (!at)
		return 1;
	if (n > CLASS_BYTES) {
		at += n - CLASS_BYTES;
		n = CLASS_BYTES;
	}
	to[2] |= n << 32;
	return read_user(&to[4 + CLASS_BYTES / 8], n & 63, (const void *)at);
}

/* An element of a list of Ruby; 0 without it. */
INLINE u64 element(struct state *s, u64 list, u64 i)
{
	u64 at = list + 16;

	if (read_user(s->context, 40, (const void *)list) || (s->context[0] & TYPE_BITS) != IS_LIST)
		return 0;
	if (!(s->context[0] & PLACE_BIT)) {
		if (i >= s->context[2])
			return 0;
		at = s->context[4];
	}
	return get(s, at + 8 * i, 8) ? 0 : s->pair[0];
}

/* Symbols of a list, of a name and another word each. Those of operators are their own numbers. */
#define SYMBOLS 512
#define OPERATORS 1024

/* The string of Ruby that names the method that was read last, as it was defined. */
INLINE u64 symbol_name(struct state *s, struct runtime *r)
{
	u64 number;

	if (get(s, s->object[2] + 32, 8))
		return 0;
	number = s->pair[0] < OPERATORS ? s->pair[0] : s->pair[0] >> 4;
	if (get(s, r->code_type, 8))
		return 0;
	return element(s, element(s, s->pair[0], number / SYMBOLS), number % SYMBOLS * 2);
}

/* Finds a text that ends with a zero byte, as `string` does. What was read last is lost. */
INLINE u64 text(struct state *s, u64 at, u64 *bytes, u64 *head)
{
	s64 n = read_user_text(s->object, sizeof(s->object), (const void *)at);

	if (n <= 0)
		return 0;
	/* The end of a longer one is not known. */
	*head = *bytes = n < (s64)sizeof(s->object) ? n - 1 : 0;
	return at;
}

/* Writes the names of a function, unless that was done before. */
INLINE void name_function(struct state *s, struct runtime *r)
{
	u32 zero = 0;
	struct seen *all = map_lookup(&seen, &zero);
	u64 tag = mix(mix(s->cookie, s->code), r->id) | 1, *last, at, n, head, name, file;
	u64 *to = &s->ip[s->depth & (WORDS - 1)];

	if (!all || !s->names)
		return;
	last = &all->tag[tag >> 50 & (SEEN - 1)];
	if (*last == tag)
		return;
	to[0] = NAME_TAG | (s->code & ADDRESS_BITS);
	to[1] = s->cookie >> 32 << 32 | half(s, r->first_line) >> (r->line_shift & 1);
	n = head = 0;
	name = field(s, r->name);
	if (r->kind == RUBY && !name)
		name = symbol_name(s, r);
	at = string(s, r, name, &n, &head);
	/* The code of a file has no name, and a function that is written in C has no file. */
	if (!at && (r->kind != PHP || name))
		return;
	to[2] = head;
	n = n > NAME_BYTES ? NAME_BYTES : n;
	if (read_user(&to[4], n & 127, (const void *)at))
		return;
	if ((r->kind == PHP || r->kind == PERL) && name_class(s, r, to))
		return;
	n = head = 0;
	file = field(s, r->file);
	/* A path, or that and the real one. */
	if (r->kind == RUBY) {
		at = element(s, file, 0);
		file = at ? at : file;
	}
	at = r->kind == PERL ? text(s, file, &n, &head) : string(s, r, file, &n, &head);
	if (!at && (r->kind == PYTHON || file))
		return;
	to[3] = head;
	if (n > FILE_BYTES) {
		at += n - FILE_BYTES;
		n = FILE_BYTES;
	}
	if (read_user(&to[4 + NAME_BYTES / 8], n & 127, (const void *)at))
		return;
	s->depth += NAME_WORDS;
	s->names--;
	*last = tag;
}

/* Reads the code or the method of a frame of Ruby; not 0 if it is not one. */
INLINE long read_ruby_code(struct state *s, struct runtime *r)
{
	u64 type;

	if (read_user(s->object, 40, (const void *)s->code))
		return 1;
	type = s->object[0] & OWN_TYPE_BITS;
	if (type == IS_CODE)
		return read_user(s->object, r->code_size & 127, (const void *)s->object[2]);
	if (type != IS_METHOD)
		return 1;
	/* Its definition, which its name is read from, its own name, and its class. */
	s->object[0] = mix(mix(s->object[2], s->object[3]), s->object[4]);
	*(u64 *)((u8 *)s->object + (r->name & 0xf8)) = *(u64 *)((u8 *)s->object + (r->file & 0xf8)) = 0;
	*(u64 *)((u8 *)s->object + (r->first_line & 0xf8)) = 0;
	return 0;
}

/* Reads a function of Perl, and finds what has its name and its package: itself, or a symbol. Not 0 if it is not one. */
#define PERL_FUNCTION 13
#define PERL_NAMED 0x8000
INLINE long read_perl_code(struct state *s)
{
	u64 symbol;

	if (read_user(s->object, 16, (const void *)s->code) || (u8)(s->object[1] >> 32) != PERL_FUNCTION)
		return 1;
	if (read_user(s->object, 96, (const void *)s->object[0]))
		return 1;
	s->object[15] = 0;
	if (s->object[11] >> 32 & PERL_NAMED)
		return 0;
	symbol = s->object[7];
	if (get(s, symbol + 16, 8) || get(s, s->pair[0] + 56, 8))
		return 1;
	/* It may have been defined under another name. */
	if (s->pair[0])
		symbol = s->pair[0];
	if (get(s, symbol, 8) || get(s, s->pair[0] + 32, 16))
		return 1;
	s->object[7] = s->pair[0];
	s->object[4] = s->pair[1];
	return 0;
}

/* Reads the code of a function; not 0 if it is not one. */
INLINE long read_code(struct state *s, struct runtime *r)
{
	u8 type;

	if (r->kind == RUBY)
		return read_ruby_code(s, r);
	if (r->kind == PERL)
		return read_perl_code(s);
	/* The object may be one word longer than what is read. */
	if (read_user(s->object, r->code_size & 255, (const void *)s->code))
		return 1;
	if (r->kind != PHP)
		return s->object[1] != r->code_type;
	type = s->object[0];
	/* A function in C: what is behind its name and class is not that of PHP's. */
	if (type == 1)
		*(u64 *)((u8 *)s->object + (r->file & 0xf8)) = *(u64 *)((u8 *)s->object + (r->first_line & 0xf8)) = 0;
	return type != 1 && type != 2;
}

/* There are no more frames of the language. */
INLINE long end_frames(struct state *s)
{
	s->frame = 0;
	s->code = 0;
	s->in_run = s->done;
	return s->done & 1;
}

/* Bits of a frame of Ruby: of its kind, those of methods in C, those of the outermost one, which is none of the program,
 * and that C code called it. */
#define FRAME_KIND 0x7fff0001
#define IN_C 0x55550001
#define OUTERMOST 0x79990001
#define FINISHES 0x20
/* The frame is one of C code. */
#define OF_C 0x80

/* Reads a frame of Ruby, and goes to the next. Those of neither code nor a method have no function. */
INLINE long ruby_frame(struct state *s, struct runtime *r)
{
	u64 kind;

	if (read_user(s->object, 48, (const void *)s->frame))
		return 1;
	s->frame += r->next;
	if (s->frame >= s->bound)
		s->frame = 0;
	s->next_code = s->object[2];
	s->instruction = 0;
	/* The method and the flags are below the local variables. */
	if (read_user(s->object, 24, (const void *)(s->object[4] - 16)))
		return 1;
	if (!(s->object[2] & FINISHES))
		s->in_run = 1;
	kind = s->object[2] & FRAME_KIND;
	if (kind == IN_C)
		s->next_code = s->object[0];
	else if (kind == OUTERMOST || s->object[2] & OF_C)
		s->next_code = 0;
	return 0;
}

/* Reads a frame of Perl, and goes to the next. Only those of its kind have functions, unless these are fake. */
#define FUNCTION_KIND 9
#define FAKE 0x80
INLINE long perl_frame(struct state *s, struct runtime *r)
{
	u64 outer = s->outer;

	s->instruction = s->next_code = 0;
	s->in_run = 1;
	if (s->frame >= s->bound) {
		if (read_user(s->object, 80, (const void *)s->frame))
			return 1;
		s->frame -= r->next;
		if ((s->object[0] & (FAKE | 15)) == FUNCTION_KIND) {
			s->next_code = s->object[9];
			/* Without an operation to return to, C code called it. */
			if (!s->object[6])
				s->in_run = s->done;
		}
	}
	if (s->frame >= s->bound)
		return 0;
	s->frame = 0;
	if (outer) {
		enter_stack(s, r, outer);
		s->in_run = s->done;
	}
	return 0;
}

/* The operation that the innermost frame of PHP executes. The interpreter has it in a register, and writes it to the frame
 * only before what may need it: it is near there. Odd where it is not known: in code of the interpreter's own that
 * has something else in the register, and in what a JIT compiled, where the native stack ends. */
#ifndef ARM64
#define OPERATION 15
#define NEAR (1 << 21)
#endif
INLINE u64 operation(struct state *s, u64 saved)
{
	if (s->done)
		return 1;
#ifdef OPERATION
	if (s->reg[OPERATION] - saved + NEAR < 2 * NEAR)
		return s->reg[OPERATION];
#endif
	return s->frames == 1 ? 1 : saved;
}

/* Reads a frame that points to the next, and goes there. Some have no function. */
INLINE long linked_frame(struct state *s, struct runtime *r)
{
	u64 is_entry;

	if (read_user(s->object, r->frame_size & 127, (const void *)s->frame))
		return 1;
	is_entry = (*((u8 *)s->object + r->entry) & r->entry_mask) >= r->entry_least;
	s->next_code = field(s, r->code) & ~7ull;
	s->instruction = r->index ? half(s, r->instruction) : field(s, r->instruction);
	if (r->kind == PHP && !s->code)
		s->instruction = operation(s, s->instruction);
	if (!r->index)
		s->instruction -= s->next_code;
	s->frame = field(s, r->next);
	if (!is_entry)
		s->in_run = 1;
	else if (r->shim) {
		s->next_code = 0;
		return 0;
	}
	/* A frame of PHP for a call from C outside of functions has none. */
	return !s->next_code && r->kind == PYTHON;
}

/* One frame of the interpreter. */
INLINE long interpreted(struct state *s)
{
	u32 number = s->runtime;
	struct runtime *r = map_lookup(&runtimes, &number);

	s->in_run = s->done;
	if (!r || !s->frame)
		return s->done & 1;
	if (s->depth > WORDS - NAME_WORDS - 4)
		return end(s, FULL);
	if (r->kind == RUBY ? ruby_frame(s, r) : r->kind == PERL ? perl_frame(s, r) : linked_frame(s, r))
		return end_frames(s);
	if (!s->next_code)
		return 0;
	if (s->next_code != s->code) {
		s->code = s->next_code;
		if (read_code(s, r)) {
			if (r->kind != PERL)
				return end_frames(s);
			/* The frame is being made: it still has what another had in its place. */
			s->code = 0;
			return 0;
		}
		s->cookie = mix(mix(half(s, r->first_line), field(s, r->name)), field(s, r->file));
		s->cookie = mix(s->cookie, (u64)half(s, r->flags) << 32 | half(s, r->arguments));
		s->cookie = mix(s->cookie, content(s, r, field(s, r->name)));
		/* Names have a hash before their characters. */
		if (r->kind == PERL && !package_name(s, r) && !get(s, s->pair[0], 8))
			s->cookie = mix(s->cookie, s->pair[0]);
		if (!s->named) {
			s->named = 1;
			s->ip[s->depth & (WORDS - 1)] = RUNTIME_TAG | r->id;
			s->depth++;
		}
		name_function(s, r);
	}
	s->ip[s->depth & (WORDS - 1)] = FRAME_TAG | (s->code & ADDRESS_BITS);
	s->ip[(s->depth + 1) & (WORDS - 1)] = s->cookie >> 32 << 32 | (u32)s->instruction;
	s->depth += 2;
	return 0;
}

/* The word of a native frame. If it executes frames of the language, these come next. */
INLINE u64 run_of(struct state *s, u64 at)
{
	u32 number = s->runtime;
	struct runtime *r;

	if (!number)
		return s->pc;
	r = map_lookup(&runtimes, &number);
	if (!r)
		return s->pc & ADDRESS_BITS;
	s->in_run = s->frame && (at - r->loop[0][0] < r->loop[0][1] || at - r->loop[1][0] < r->loop[1][1]);
	return (s->pc & ADDRESS_BITS) | (at - r->text < r->text_len ? TEXT_TAG : 0);
}

/* Whether an address is in code of the virtual machine. */
INLINE int is_java(struct state *s, u64 at)
{
	return at - s->code_start < s->code_len;
}

/* Finds the blob of code that has an address, reads its head, and returns its address; 0 without a blob. */
INLINE u64 find_blob(struct state *s, struct code_cache *c, u64 at)
{
	u64 start = 0, segments = 0, segment, by = 0;

#pragma unroll
	for (int i = 0; i < HEAPS; i++) {
		if (at - c->heap[i].start < c->heap[i].len) {
			start = c->heap[i].start;
			segments = c->heap[i].segments;
		}
	}
	if (!segments)
		return 0;
	s->pair[1] = (at - start) >> (c->segment_shift & 31);
#pragma unroll
	for (int i = 0; i < HOPS; i++) {
		segment = s->pair[1];
		s->pair[0] = 0;
		if (read_user(&s->pair[0], 1, (const void *)(segments + segment)))
			return 0;
		by = s->pair[0];
		if (!by)
			break;
		if (by == 0xff)
			return 0;
		s->pair[1] = segment - by;
	}
	if (by)
		return 0;
	start += (s->pair[1] << (c->segment_shift & 31)) + c->blob;
	return read_user(s->object, BLOB_HEAD, (const void *)start) ? 0 : start;
}

/* Takes the return address at this place of the stack if it is in code of the virtual machine, as it is for all that
 * was called from there. */
INLINE int returns_at(struct state *s, u64 at)
{
	if (get(s, at, 8) || !is_java(s, s->pair[0]))
		return 0;
	s->sp = at + 8;
	s->pc = s->pair[0];
	return 1;
}

/* Whether only the rest of a function's end is left: 1 if its frame pointer is popped, 2 if that comes first. */
INLINE u64 is_leaving(struct state *s)
{
	u64 bytes;

	if (get(s, s->pc, 16))
		return 0;
	bytes = s->pair[0];
	if ((u8)bytes == 0x5d)
		return 2;
	/* ret; cmp rsp, [r15 + n]; mov r10, [r15 + n]; ja to what polls, before ret. */
	if ((u8)bytes == 0xc3 || (bytes & 0x3fffff) == 0x273b49 || (bytes & 0xffffff) == 0x978b4d)
		return 1;
	return (u16)bytes == 0x870f && (u8)(bytes >> 48) == 0xc3;
}

/* The caller of the innermost function, which may not have its own frame yet, or has left it. */
INLINE long leaf_caller(struct state *s, struct code_cache *c, u64 blob, u64 size)
{
	s32 word = half(s, c->complete);
	s32 complete = !c->complete_is_short ? word : c->complete & 2 ? word >> 16 : (s16)word;
	u64 code = c->code_is_offset ? blob + half(s, c->code) : field(s, c->code), leaving;

	leaving = size ? is_leaving(s) : 0;
	if (leaving == 1 || !size || complete < 0 || s->pc - code < (u64)complete) {
		if (returns_at(s, s->sp))
			return 0;
	}
	if (leaving == 2 || (size && s->pc - code < (u64)complete)) {
		if (returns_at(s, s->sp + 8)) {
			if (get(s, s->sp - 16, 8))
				return end(s, FAULT);
			s->fp = s->pair[0];
			return 0;
		}
	}
	if (!size)
		return by_frame_pointer(s);
	if (get(s, s->sp + size - 16, 16))
		return end(s, FAULT);
	if (!is_java(s, s->pair[1]))
		return returns_at(s, s->sp) ? 0 : end(s, NOWHERE);
	s->sp += size;
	s->fp = s->pair[0];
	s->pc = s->pair[1];
	return 0;
}

/* A hash of a symbol's length and first characters. */
INLINE u64 symbol(struct state *s, struct code_cache *c, u64 at)
{
	u64 n, hash;

	if (get(s, at + c->symbol_length, 8))
		return 0;
	n = hash = (u16)s->pair[0];
	n = n > 64 ? 64 : n;
	/* The verifier needs the mask below. */
	asm volatile("" : "+r"(n));
#pragma unroll
	for (int i = 0; i < 8; i++)
		s->context[3 + i] = 0;
	read_user(&s->context[3], n & 127, (const void *)(at + c->symbol_body));
#pragma unroll
	for (int i = 0; i < 8; i++)
		hash = mix(hash, s->context[3 + i]);
	return hash;
}

/* A hash of what identifies the method whose constant part was read: the memory of a method that is dropped is used
 * again for methods of the same sizes. */
INLINE u64 identity(struct state *s, struct code_cache *c)
{
	u64 pool = s->object[1], index = *(u16 *)((u8 *)s->object + (c->name & 0x3e));
	u64 hash = mix(mix(pool, s->object[4]), s->object[5]);

	if (!get(s, pool + c->pool_size + 8 * index, 8))
		hash = mix(hash, symbol(s, c, s->pair[0]));
	if (!get(s, pool + c->pool_holder, 8) && !get(s, s->pair[0] + c->class_name, 8))
		hash = mix(hash, symbol(s, c, s->pair[0]));
	return hash;
}

/* A frame of the virtual machine's interpreter: a method, where its bytecode is executed, and who called it. */
INLINE long bytecode(struct state *s, struct code_cache *c, u64 fresh)
{
	u64 sp, fp, pc, method, at, constant, cookie;

	s->ip[s->depth & (WORDS - 1)] = TEXT_TAG | (s->pc & ADDRESS_BITS);
	s->depth++;
	if (s->fp & 7 || s->fp - s->sp >= 4 << 20)
		return end(s, NO_FRAME);
	/* From the bytecode's address, eight words below, to the return address. */
	if (read_user(s->object, 80, (const void *)(s->fp - 64)))
		return end(s, FAULT);
	at = s->object[0];
	method = s->object[5];
	sp = s->object[7];
	fp = s->object[8];
	pc = s->object[9];
	if (!get(s, method + c->constant, 8)) {
		constant = s->pair[0];
		if (!read_user(s->object, 48, (const void *)constant)) {
			cookie = identity(s, c);
			constant += c->constant_size;
#ifndef ARM64
			if (fresh && s->reg[13] - constant < 0x10000)
				at = s->reg[13];
#endif
			at -= constant;
			constant -= c->constant_size;
			s->ip[s->depth & (WORDS - 1)] = METHOD_TAG | (constant & ADDRESS_BITS);
			s->ip[(s->depth + 1) & (WORDS - 1)] = cookie >> 32 << 32 | (u32)at;
			s->depth += 2;
		}
	}
	if (sp <= s->sp || sp - s->fp >= 4 << 20 || !is_java(s, pc))
		return end(s, NOWHERE);
	s->sp = sp;
	s->fp = fp;
	s->pc = pc;
	return 0;
}

/* One frame of code that a virtual machine made: what it is, and who called it. */
INLINE long generated(struct state *s, u64 at)
{
	u32 number = s->runtime;
	struct code_cache *c = map_lookup(&code_caches, &number);
	u64 fresh = s->fresh, blob, size;

	if (!c || s->depth > WORDS - 8)
		return end(s, FULL);
	s->frames++;
	s->fresh = 0;
	s->back = CALL;
	s->by_fp = 0;
	if (!s->named) {
		s->named = 1;
		s->ip[s->depth & (WORDS - 1)] = RUNTIME_TAG | c->id;
		s->depth++;
	}
	if (at - c->interpreter < c->interpreter_len)
		return bytecode(s, c, fresh);
	blob = s->blob;
	if (fresh || at - blob >= s->blob_len) {
		blob = find_blob(s, c, at);
		s->blob = blob;
		s->blob_len = blob ? half(s, c->size) : 0;
		s->blob_frame = half(s, c->frame_size);
		s->compilation = 0;
		if (blob && !get(s, blob + c->compilation, 4))
			s->compilation = (u32)s->pair[0];
	}
	if (!blob) {
		s->ip[s->depth & (WORDS - 1)] = s->pc & ADDRESS_BITS;
		s->depth++;
		return by_frame_pointer(s);
	}
	s->ip[s->depth & (WORDS - 1)] = BLOB_TAG | (blob & ADDRESS_BITS);
	s->ip[(s->depth + 1) & (WORDS - 1)] = (u64)s->compilation << 32 | (u32)(s->pc - blob);
	s->depth += 2;
	/* Code without a frame of known size has a frame pointer, but where it begins. */
	size = s->blob_frame < 1 << 20 ? (u64)s->blob_frame * 8 : 0;
	if (fresh)
		return leaf_caller(s, c, blob, size);
	if (!size)
		return by_frame_pointer(s);
	if (get(s, s->sp + size - 16, 16))
		return end(s, FAULT);
	s->sp += size;
	s->fp = s->pair[0];
	s->pc = s->pair[1];
	return is_java(s, s->pc) ? 0 : end(s, NOWHERE);
}

/* Reads an object of an engine, by a pointer with a tag; it may have been moved from there. Returns its address, 0 if it
 * cannot be read. */
INLINE u64 read_object(struct state *s, u64 at)
{
	if ((at & 3) != 1 || read_user(s->object, 96, (const void *)(at - 1)))
		return 0;
	if (s->object[0] & 3)
		return at;
	at = s->object[0] + 1;
	return read_user(s->object, 96, (const void *)(at - 1)) ? 0 : at;
}

/* Finds the shared part of a function, and its cookie; not 0 if it is not one. */
INLINE long find_function(struct state *s, struct engine *e, u64 function)
{
	u64 hash;

	if (function == s->code)
		return !s->blob;
	s->code = function;
	s->blob = 0;
	if (!read_object(s, function) || get(s, s->object[0] - 1 + e->type, 8))
		return 1;
	if ((u16)s->pair[0] < e->first_type || (u16)s->pair[0] > e->last_type)
		return 1;
	function = read_object(s, field(s, e->shared));
	if (!function || get(s, field(s, e->script) - 1 + e->script_id, 8))
		return 1;
	hash = mix(mix(field(s, e->name), field(s, e->script)), s->pair[0]);
	s->cookie = mix(hash, half(s, e->literal));
	s->blob = function;
	return 0;
}

/* Writes the function of a frame whose address was written, if it is one of JavaScript. */
INLINE void name_script(struct state *s, struct engine *e, u64 function, u64 at, u64 fresh)
{
	u64 code = 0;

	if (find_function(s, e, function))
		return;
	/* The engine's own file has rows. */
	if (s->len && s->n)
		at = 0;
	else {
		if (get(s, at, 16))
			s->pair[0] = s->pair[1] = 0;
		code = mix(mix(at, s->pair[0]), s->pair[1]) >> 32;
		if (fresh)
			at |= SAMPLED_HERE;
	}
	if (!s->named) {
		s->named = 1;
		s->ip[s->depth & (WORDS - 1)] = RUNTIME_TAG | e->id;
		s->depth++;
	}
	s->ip[s->depth & (WORDS - 1)] = SCRIPT_TAG | (s->blob & ADDRESS_BITS);
	s->ip[(s->depth + 1) & (WORDS - 1)] = s->cookie >> 32 << 32 | code;
	s->ip[(s->depth + 2) & (WORDS - 1)] = at & ADDRESS_BITS;
	s->depth += 3;
}

/* A frame of code without rows in a process with an engine of JavaScript: the function, and who called it. */
INLINE long script_frame(struct state *s, u64 at, u64 fresh)
{
	u32 number = s->runtime;
	struct engine *e = map_lookup(&engines, &number);
	u64 function, entered = 0;

	if (!e || s->depth > WORDS - 8)
		return end(s, FULL);
#ifndef ARM64
	/* push rbp, and mov rbp, rsp: the function is in a register yet. */
	if (fresh && !get(s, s->pc, 8)) {
		if ((u8)s->pair[0] == 0x55)
			entered = 8;
		else if ((s->pair[0] & 0xffffff) == 0xe58948)
			entered = 16;
	}
	function = s->reg[5];
#else
	function = 0;
#endif
	if (!entered) {
		if (read_user(s->object, 16, (const void *)(s->fp - 16)) || (s->object[1] & 3) != 1)
			return by_frame_pointer(s);
		function = s->object[0];
	}
	name_script(s, e, function, at, fresh);
	if (!entered)
		return by_frame_pointer(s);
	if (get(s, s->sp + entered - 8, 8))
		return end(s, FAULT);
	s->sp += entered;
	s->pc = s->pair[0];
	return s->pc ? 0 : end(s, NOWHERE);
}

/* One native frame: where it is, and who called it. */
INLINE long native(struct state *s)
{
	u32 rule = K_GAP;
	u64 at, fresh;
	long again;

	if (s->trampoline && s->pc - s->trampoline < TRAMPOLINE && (s->pc == s->trampoline || !s->depth)) {
		if (unprobe(s, &again))
			return 1;
		if (again)
			return 0;
	}
	if (s->frames >= s->most || s->depth >= WORDS - 1)
		return end(s, FULL);
	at = s->pc - s->back;
	if (is_java(s, at))
		return generated(s, at);
	if (at - s->start >= s->len && s->known)
		find(s, at);
	if (s->len)
		rule = rule_at(s, at - s->bias);
	else if (s->known) {
		s->flags |= MAPPING_UNKNOWN;
		if (s->by_fp)
			return end(s, NOWHERE);
	}
	s->ip[s->depth & (WORDS - 1)] = run_of(s, at);
	s->depth++;
	s->frames++;
	fresh = s->fresh;
	s->fresh = 0;
	s->back = CALL;
	if ((u8)rule == K_GAP) {
#ifdef ARM64
		if (!fresh && !s->by_fp && is_trampoline(s))
			return interrupted(s, 0);
#endif
		if (s->len)
			s->flags |= HAD_NO_ROW;
		return s->engine ? script_frame(s, at, fresh) : by_frame_pointer(s);
	}
	if ((u8)rule == K_END)
		return end(s, COMPLETE);
	if ((u8)rule == K_SIGNAL)
		return SP_IS_KNOWN(s) ? interrupted(s, rule >> 16) : by_frame_pointer(s);
	return by_rule(s, rule, fresh);
}

/* One frame of either kind. Where the native stack ends, those of the language that are left follow. */
static long step(u32 round, void *which)
{
	struct state *s = map_lookup(&states, which);

	if (!s)
		return 1;
	if (s->in_run)
		return interpreted(s);
	if (!native(s))
		return 0;
	if (!s->frame)
		return 1;
	s->done = s->in_run = 1;
	return 0;
}

#ifdef ARM64
struct registers {
	u64 x[31], sp, pc, state, first;
	u32 call;
};
#define IS_USER(state) (((state) & 15) == 0)
#define IS_NARROW(state) 0
#define MODE state
#define NARROW_MODE state
#define CALL_NUMBER call
#else
struct registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	/* As the context has it, and as all kernels' own types do. */
	union {
		u64 cs;
		u16 narrow_cs;
	};
	u64 flags, sp, ss;
};
#define IS_USER(cs) (((cs) & 3) == 3)
/* The segment of code of 32 bits, __USER32_CS. */
#define IS_NARROW(cs) ((u16)(cs) == 0x23)
#define MODE cs
#define NARROW_MODE narrow_cs
#define CALL_NUMBER orig_ax
#endif

/* Takes the registers of user code; 0 where there is none. */
INLINE u64 take(struct state *s, struct registers *r)
{
#ifdef ARM64
#pragma unroll
	for (int i = 0; i < 31; i++)
		s->reg[i] = r->x[i];
	s->reg[SP] = r->sp;
	s->pc = r->pc;
#else
	s->reg[0] = r->ax;
	s->reg[1] = r->dx;
	s->reg[2] = r->cx;
	s->reg[3] = r->bx;
	s->reg[4] = r->si;
	s->reg[5] = r->di;
	s->reg[6] = r->bp;
	s->reg[7] = r->sp;
	s->reg[8] = r->r8;
	s->reg[9] = r->r9;
	s->reg[10] = r->r10;
	s->reg[11] = r->r11;
	s->reg[12] = r->r12;
	s->reg[13] = r->r13;
	s->reg[14] = r->r14;
	s->reg[15] = r->r15;
	s->pc = r->ip;
#endif
	s->sp = s->reg[SP];
	s->fp = s->reg[FP];
	return s->pc;
}

/* Asks for tables of a process at once: what is written is read when a ring is, and by then it may have ended. */
INLINE void ask(u32 tgid)
{
	u32 at = tgid % ASKERS;
	struct asker *last = map_lookup(&askers, &at);
	u64 who = tgid, since;

	if (!last)
		return;
	since = now() - last->time;
	if (last->tgid != who || since / 64 > last->pause)
		last->pause = PAUSE;
	else if (since < last->pause)
		return;
	else if (last->pause < LONG_PAUSE)
		last->pause *= 2;
	last->tgid = who;
	last->time += since;
	tell(&asks, &who, sizeof(who), WAKE);
}

/* Where the parent of the current process has its mappings, if this was forked and has them, too: executing a program
 * would have moved the stack. */
INLINE struct space *inherited(void)
{
	u32 zero = 0, tgid;
	struct family *f = map_lookup(&families, &zero);
	u64 task = current_address(), parent, own, mm;

	if (!f || !f->parent)
		return 0;
	parent = kernel_word(task + f->parent);
	own = kernel_word(task + f->mm);
	mm = kernel_word(parent + f->mm);
	if (!own || !mm)
		return 0;
	if (own != mm && (kernel_word(own + f->code) != kernel_word(mm + f->code) ||
			  kernel_word(own + f->stack) != kernel_word(mm + f->stack)))
		return 0;
	tgid = kernel_word(parent + f->tgid);
	return map_lookup(&spaces, &tgid);
}

/* Begins a walk from the registers that were taken. */
INLINE void begin_walk(struct state *s, const struct settings *said, u8 flags)
{
	s->owner = current_pid_tgid();
	s->address = said->address;
	s->back = 0;
	s->fresh = 1;
	s->by_fp = 0;
	s->start = 0;
	s->len = 0;
	s->depth = 0;
	/* Unless an end is found. */
	s->why = FULL;
	s->flags = flags | (s->narrow ? NARROW : 0);
	s->trampoline = 0;
	find_pending(s);
}

/* Walks to the end; 0 if another walk took its place. */
INLINE int walk_user(struct state *s, u32 which)
{
	u64 task = current_pid_tgid();
	u32 tgid = task >> 32;
	struct space *space = map_lookup(&spaces, &tgid);

	if (!space) {
		s->flags |= PROCESS_UNKNOWN;
		space = inherited();
	}
	s->known = space != 0;
	if (space)
		s->space = *space;
	s->runtime = space ? space->runtime : 0;
	s->most = FRAMES;
	s->frames = 0;
	s->code = s->blob = 0;
	s->named = s->in_run = s->done = 0;
	s->names = NAMES;
	s->code_len = s->blob_len = s->engine = 0;
	find_frame(s);
	loop((s->frame || s->code_len || s->engine ? MIXED_FRAMES + MIXED_ROUNDS : FRAMES) + 1 + MOST_PENDING, step, &which, 0);
	if (s->owner != task)
		return 0;
	if (s->flags & (PROCESS_UNKNOWN | MAPPING_UNKNOWN))
		ask(tgid);
	return 1;
}

/* Walks from the registers that were taken, and writes the result. */
INLINE void walk_from_here(void *ctx, struct state *s, const struct settings *said, u32 which, u8 flags)
{
	u64 n;

	begin_walk(s, said, flags);
	if (said->copies) {
		if (!s->pending)
			return;
		s->why = RETURNS;
		s->ip[0] = s->trampoline;
		s->depth = 1;
		loop((FRAMES - 1) / 2, collect, &which, 0);
		n = s->depth & 127;
		output(ctx, &events, CURRENT_CPU, &s->why, 4 + 8 * n);
		return;
	}
	if (!walk_user(s, which))
		return;
	n = s->depth & (WORDS - 1);
	if (s->flags & PROCESS_UNKNOWN) {
		/* Samples have the number of their reader's namespace: who is to make tables learns the kernel's. */
		s->ip[n] = (u32)(s->owner >> 32);
		output(ctx, &events, CURRENT_CPU, &s->why, 12 + 8 * n);
		return;
	}
	output(ctx, &events, CURRENT_CPU, &s->why, 4 + 8 * n);
}

/* Takes the registers with which the task left user code; 0 where there are none. */
INLINE u64 take_saved(struct state *s, struct registers *r)
{
	if (!r || !IS_USER(r->NARROW_MODE) || !take(s, r))
		return 0;
	s->narrow = IS_NARROW(r->NARROW_MODE);
	return s->pc;
}

#ifndef WAITS
/* The walk of the task that is interrupted. */
INLINE void walk_interrupted(struct registers *ctx, u32 which)
{
	u32 zero = 0;
	struct state *s = map_lookup(&states, &which);
	const struct settings *said = map_lookup(&settings, &zero);

	if (!s || !said)
		return;
	s->narrow = 0;
	if (IS_USER(*(volatile u64 *)&ctx->MODE)) {
		if (!take(s, ctx))
			return;
		s->narrow = IS_NARROW(*(volatile u64 *)&ctx->MODE);
	} else if (!take_saved(s, task_regs(current_task())))
		return;
	walk_from_here(ctx, s, said, which, 0);
}

/* Returns 1, so that the sample is taken: it follows what is written here. */
SECTION("perf_event") int walk(struct registers *ctx)
{
	walk_interrupted(ctx, SAMPLED);
	return 1;
}

/* The same for the session's own probes. */
SECTION("probe") int walk_probed(struct registers *ctx)
{
	walk_interrupted(ctx, PROBED);
	return 1;
}

/* The walk of the task at a tracepoint. */
INLINE void walk_task(void *ctx, struct registers *r)
{
	u32 which = TRACED, zero = 0;
	struct state *s = map_lookup(&states, &which);
	const struct settings *said = map_lookup(&settings, &zero);

	if (!s || !said || (said->events && !kernel_word(current_address() + said->events)))
		return;
	if (take_saved(s, r))
		walk_from_here(ctx, s, said, which, AT_TRACEPOINT);
}

SECTION("raw_tp") int walk_traced(void *ctx)
{
	walk_task(ctx, task_regs(current_task()));
	return 0;
}

/* Of system calls only those that are traced: all of them have one tracepoint. */
SECTION("raw_tp_call") int walk_call(void *ctx)
{
	struct registers *r = task_regs(current_task());
	u32 number, *is_traced;

	if (!r)
		return 0;
	number = r->CALL_NUMBER;
	is_traced = map_lookup(&calls, &number);
	if (is_traced && *is_traced)
		walk_task(ctx, r);
	return 0;
}

#endif

char DATA("license") licence[] = "Dual MIT/GPL";
