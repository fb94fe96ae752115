/* SPDX-License-Identifier: (MIT OR GPL-2.0-only)
 *
 * Writes DNS messages into the CPU's ring, at raw tracepoints: a query when a local socket's packet is queued for a
 * network device, and an answer when a thread has read its datagram. Of a query, the header and the question are
 * copied, of an answer the header, of other packets nothing. Compiled by the `build` next to it; no header is included,
 * so that the object is the same everywhere.
 *
 * No tracepoint has both the reader of a datagram and its bytes on all kernels. Since 6.3, a tracepoint reports the
 * length that was read (`sock_recv_length`), and the bytes are where the system call put them. Until 6.17, the reader
 * frees the packet (`consume_skb`).
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
/* Without types of their own: the loader makes maps from what they hold. */
#define DATA(name) __attribute__((section(name), used, nodebug))
#define INLINE static inline __attribute__((always_inline))

/* Helpers (bpf-helpers(7)). */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const output)(void *ctx, void *map, u64 flags, void *data, u64 size) = (void *)25;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*const current_task)(void) = (void *)158;
static const u8 *(*const user_registers)(void *task) = (void *)175;

#define CURRENT_CPU 0xffffffffull

/* What the loader makes of each map: type, key and value in bytes, entries, flags; sizes of inner maps' values. */
struct map {
	u32 type, key, value, entries, flags, inner;
};

#define ARRAY 2
#define PERF_EVENT_ARRAY 4
#define LRU_HASH 9
#define MMAPABLE 1024

/* Mapped by the loader: the offsets of fields (`FIELDS` of mod.rs has the same order). */
struct settings {
	/* Of a packet. */
	u64 sk_at, dev_at, head_at, tail_at, network_at, transport_at;
	/* Of a socket. The last one is 0 if the kernel has no IPv6. */
	u64 protocol_at, family_at, port_at, peer_port_at, peer_at, peer6_at;
};

#define UDP 17
#define INET 2
#define DNS_PORT 53
/* In a message's third byte: an answer, and the kind of operation. */
#define ANSWER 0x80
#define OPERATION 0x78
#define HEADER 12
/* The longest name has 255 bytes; its type and class follow. */
#define PAYLOAD (HEADER + 260)

/* A message (src/record/dns_message.rs reads it). */
struct message {
	/* The packet's address: it passes several devices. */
	u64 packet;
	u8 is_answer, is_ipv6;
	u16 port, server_port;
	/* The bytes of the payload that were copied. */
	u16 size;
	u8 server[16];
	u8 payload[PAYLOAD];
};

DATA("maps") struct map settings = {ARRAY, 4, sizeof(struct settings), 1, MMAPABLE, 0};
/* Sockets that asked without being connected to a server. */
DATA("maps") struct map sockets = {LRU_HASH, 8, 8, 4096, 0, 0};
DATA("maps") struct map events = {PERF_EVENT_ARRAY, 4, 4, 0, 0, 0};

/* A datagram: its IP header, its ports, and its payload with the number of bytes that are in one piece. */
struct datagram {
	u8 ip[40];
	u8 udp[8];
	const u8 *payload;
	u32 size;
};

INLINE u32 big16(const u8 *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

INLINE struct settings *get_settings(void)
{
	u32 zero = 0;
	return map_lookup(&settings, &zero);
}

/* Whether a packet is UDP; reads its headers. */
INLINE int read_datagram(struct settings *set, const u8 *packet, struct datagram *to)
{
	const u8 *head = 0;
	u16 network = 0, transport = 0;
	u32 tail = 0;
	read_kernel(&head, 8, packet + set->head_at);
	read_kernel(&network, 2, packet + set->network_at);
	read_kernel(&transport, 2, packet + set->transport_at);
	read_kernel(&tail, 4, packet + set->tail_at);
	u32 start = transport + 8;
	if (!head || network >= transport || tail < start + HEADER)
		return 0;
	if (read_kernel(to->ip, sizeof(to->ip), head + network) || read_kernel(to->udp, 8, head + transport))
		return 0;
	u32 version = to->ip[0] >> 4;
	if ((version == 4 ? to->ip[9] : version == 6 ? to->ip[6] : 0) != UDP)
		return 0;
	u32 size = big16(to->udp + 4), left = tail - start;
	if (size < 8 + HEADER)
		return 0;
	size -= 8;
	to->size = size < left ? size : left;
	to->payload = head + start;
	return 1;
}

INLINE void set_address(struct message *message, const struct datagram *of, int is_source)
{
	message->is_ipv6 = of->ip[0] >> 4 == 6;
	if (message->is_ipv6)
		__builtin_memcpy(message->server, of->ip + (is_source ? 8 : 24), 16);
	else
		__builtin_memcpy(message->server, of->ip + (is_source ? 12 : 16), 4);
}

/* Sets the address that a socket is connected to. */
INLINE void set_peer(struct settings *set, struct message *message, const u8 *sk)
{
	u16 family = 0;
	read_kernel(&family, 2, sk + set->family_at);
	message->is_ipv6 = family != INET && set->peer6_at;
	if (message->is_ipv6)
		read_kernel(message->server, 16, sk + set->peer6_at);
	else
		read_kernel(message->server, 4, sk + set->peer_at);
}

SECTION("net_dev_queue") int sent(u64 *ctx)
{
	struct settings *set = get_settings();
	const u8 *packet = (const u8 *)ctx[0], *sk = 0;
	u8 protocol = 0;
	u16 peer_port = 0;
	if (!set)
		return 0;
	/* A forwarded packet has no socket. */
	read_kernel(&sk, 8, packet + set->sk_at);
	if (!sk)
		return 0;
	read_kernel(&protocol, 1, sk + set->protocol_at);
	if (protocol != UDP)
		return 0;
	read_kernel(&peer_port, 2, sk + set->peer_port_at);
	if (peer_port && big16((const u8 *)&peer_port) != DNS_PORT)
		return 0;
	struct datagram of = {};
	if (!read_datagram(set, packet, &of) || (!peer_port && big16(of.udp + 2) != DNS_PORT))
		return 0;
	struct message message = {.packet = (u64)packet, .server_port = DNS_PORT};
	/* The packet of a connected socket may be on its way to another address already (NAT). */
	if (peer_port)
		set_peer(set, &message, sk);
	else
		set_address(&message, &of, 0);
	read_kernel(&message.port, 2, sk + set->port_at);
	u32 size = of.size;
	/* The verifier does not remember the limits of a value that was stored. */
	asm volatile("" : "+r"(size));
	if (size > PAYLOAD)
		size = PAYLOAD;
	if (size < HEADER || read_kernel(message.payload, size, of.payload))
		return 0;
	if (message.payload[2] & (ANSWER | OPERATION))
		return 0;
	message.size = size;
	if (!peer_port) {
		u64 key = (u64)sk, zero = 0;
		if (!map_lookup(&sockets, &key))
			map_update(&sockets, &key, &zero, 0);
	}
	output(ctx, &events, CURRENT_CPU, &message, sizeof(message));
	return 0;
}

SECTION("consume_skb") int received(u64 *ctx)
{
	struct settings *set = get_settings();
	const u8 *packet = (const u8 *)ctx[0];
	u64 dev = 0;
	if (!set)
		return 0;
	/* A socket's queue of datagrams has sizes in the place of the device (`udp_dev_scratch` in net/ipv4/udp.c). Other
	 * packets have a kernel address there, or nothing. */
	read_kernel(&dev, 8, packet + set->dev_at);
	if (!dev || dev >> 63)
		return 0;
	struct datagram of = {};
	if (!read_datagram(set, packet, &of) || big16(of.udp) != DNS_PORT)
		return 0;
	struct message message = {.packet = (u64)packet, .is_answer = 1, .server_port = DNS_PORT, .size = HEADER};
	message.port = big16(of.udp + 2);
	set_address(&message, &of, 1);
	if (read_kernel(message.payload, HEADER, of.payload) || !(message.payload[2] & ANSWER))
		return 0;
	output(ctx, &events, CURRENT_CPU, &message, sizeof(message) - PAYLOAD + HEADER);
	return 0;
}

/* System calls that read. */
#ifdef ARM64
enum { READ = 63, READV = 65, RECVFROM = 207, RECVMSG = 212, RECVMMSG = 243 };
#define SECOND_AT 8
#define NUMBER_AT 280
#else
enum { READ = 0, READV = 19, RECVFROM = 45, RECVMSG = 47, RECVMMSG = 299 };
#define SECOND_AT 104
#define NUMBER_AT 120
#endif
#define PEEK 2
#define IOV_AT 16

/* Returns where the current system call stores the first bytes that it reads. */
INLINE const u8 *user_buffer(void)
{
	const u8 *registers = user_registers(current_task()), *second = 0, *parts = 0;
	u32 number = 0;
	u64 first[2] = {};
	if (!registers)
		return 0;
	read_kernel(&second, 8, registers + SECOND_AT);
	read_kernel(&number, 4, registers + NUMBER_AT);
	switch (number) {
	case READ:
	case RECVFROM:
		return second;
	case READV:
		parts = second;
		break;
	case RECVMSG:
	case RECVMMSG:
		read_user(&parts, 8, second + IOV_AT);
		break;
	default:
		return 0;
	}
	read_user(first, sizeof(first), parts);
	return first[1] < HEADER ? 0 : (const u8 *)first[0];
}

SECTION("sock_recv_length") int read(u64 *ctx)
{
	struct settings *set = get_settings();
	const u8 *sk = (const u8 *)ctx[0];
	u64 key = ctx[0];
	u8 protocol = 0;
	u16 peer_port = 0;
	if (!set || (int)ctx[1] < HEADER || ctx[2] & PEEK)
		return 0;
	read_kernel(&protocol, 1, sk + set->protocol_at);
	if (protocol != UDP)
		return 0;
	struct message message = {.is_answer = 1, .server_port = DNS_PORT, .size = HEADER};
	read_kernel(&peer_port, 2, sk + set->peer_port_at);
	if (big16((const u8 *)&peer_port) == DNS_PORT)
		set_peer(set, &message, sk);
	else if (peer_port || !map_lookup(&sockets, &key))
		return 0;
	if (read_user(message.payload, HEADER, user_buffer()) || !(message.payload[2] & ANSWER))
		return 0;
	read_kernel(&message.port, 2, sk + set->port_at);
	output(ctx, &events, CURRENT_CPU, &message, sizeof(message) - PAYLOAD + HEADER);
	return 0;
}

char DATA("license") licence[] = "Dual MIT/GPL";
