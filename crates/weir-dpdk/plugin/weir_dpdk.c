/* Weir's plug-in for DPDK: the part of DPDK's interface that a capture needs, without its types and inline functions.
 *
 * `weir_dpdk.h` has the contract. DPDK 22.11 or later (the LTS release of Debian 12).
 */
#define _GNU_SOURCE
/* rte_eth_read_clock. The plug-in is built for the release of DPDK that is installed. */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_version.h>

#include "internal.h"

/* Packets of a batch: BURST_PACKETS_MAX of Weir. */
#define BATCH_MAX 64
/* Bytes of a buffer: headroom for VLAN tags, and a frame of the usual MTU in one segment. */
#define BUFFER_BYTES RTE_MBUF_DEFAULT_BUF_SIZE
/* Longest frames that are asked for where the device can scatter them: jumbo frames. */
#define JUMBO_MTU 9216
/* Bytes of the two addresses at the start of a frame. */
#define ADDRESSES_BYTES 12

/* ---- The log: the last lines, for messages of errors. ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[8192];
static size_t log_bytes;

ssize_t write_log(void *cookie, const char *text, size_t bytes)
{
	(void)cookie;
	pthread_mutex_lock(&log_lock);
	/* Lines beyond the bound are dropped: the first ones name the cause. */
	size_t room = sizeof(log_text) - log_bytes;
	size_t taken = bytes < room ? bytes : room;
	memcpy(log_text + log_bytes, text, taken);
	log_bytes += taken;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)bytes;
}

EXPORTED size_t weir_dpdk_take_log(char *text, size_t bytes)
{
	if (bytes == 0)
		return 0;
	pthread_mutex_lock(&log_lock);
	size_t taken = log_bytes < bytes - 1 ? log_bytes : bytes - 1;
	memcpy(text, log_text, taken);
	text[taken] = 0;
	log_bytes = 0;
	pthread_mutex_unlock(&log_lock);
	return taken;
}

/* ---- The process. ---- */

EXPORTED uint32_t weir_dpdk_version(void)
{
	return WEIR_DPDK_VERSION;
}

EXPORTED const char *weir_dpdk_release(void)
{
	return rte_version();
}

EXPORTED int weir_dpdk_start(int count, char **arguments)
{
	cookie_io_functions_t calls = { .write = write_log };
	FILE *log = fopencookie(NULL, "w", calls);
	if (log == NULL)
		return -ENOMEM;
	setvbuf(log, NULL, _IOLBF, 0);
	rte_openlog_stream(log);
	if (rte_eal_init(count, arguments) < 0)
		return rte_errno ? -rte_errno : -EINVAL;
	return 0;
}

EXPORTED int weir_dpdk_call(void (*call)(void *), void *argument)
{
	/* Alarms are called by the thread of interrupts. */
	return rte_eal_alarm_set(1, call, argument);
}

/* A thread that DPDK knows has caches of free buffers. The registration ends with the thread. */
static pthread_key_t leaving;
static pthread_once_t leaving_made = PTHREAD_ONCE_INIT;
static __thread int is_known;

static void leave(void *unused)
{
	(void)unused;
	rte_thread_unregister();
}

static void make_leaving(void)
{
	pthread_key_create(&leaving, leave);
}

static void register_thread(void)
{
	is_known = 1;
	pthread_once(&leaving_made, make_leaving);
	/* Without a free place among DPDK's threads, buffers come from the shared pool. */
	if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0)
		pthread_setspecific(leaving, &is_known);
}

/* ---- Times that devices give. ---- */

static int time_offset = -1;
static uint64_t time_flag;

/* How the times of a port become nanoseconds since 1970. */
static struct clock {
	enum { NO_CLOCK, MICROSECONDS, TICKS } kind;
	uint64_t base_ticks;
	uint64_t base_ns;
	double ns_per_tick;
} clocks[RTE_MAX_ETHPORTS];

static uint64_t machine_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Compares the device's clock with the machine's for a tenth of a second. */
static int calibrate(uint16_t port, struct clock *clock)
{
	uint64_t first, second;
	int failed = rte_eth_read_clock(port, &first);
	uint64_t begun = machine_ns();
	if (failed)
		return failed;
	usleep(100000);
	failed = rte_eth_read_clock(port, &second);
	uint64_t ended = machine_ns();
	if (failed || second <= first || ended <= begun)
		return -ENOTSUP;
	double ns_per_tick = (double)(ended - begun) / (double)(second - first);
	*clock = (struct clock){ TICKS, second, ended, ns_per_tick };
	return 0;
}

static void read_time(const struct clock *clock, const struct rte_mbuf *packet, struct weir_dpdk_packet *described)
{
	if (clock->kind == NO_CLOCK || !(packet->ol_flags & time_flag))
		return;
	uint64_t ticks = *RTE_MBUF_DYNFIELD(packet, time_offset, const uint64_t *);
	int64_t since = (int64_t)(ticks - clock->base_ticks);
	described->flags |= WEIR_DPDK_TIMED;
	described->time_ns = clock->kind == MICROSECONDS ? ticks * 1000 :
		clock->base_ns + (uint64_t)(int64_t)((double)since * clock->ns_per_tick);
}

/* ---- Devices. ---- */

EXPORTED int weir_dpdk_attach(const char *device)
{
	int failed = rte_dev_probe(device);
	/* Devices on a bus may have been found at the start. */
	if (failed && failed != -EEXIST)
		return failed;
	size_t length = strcspn(device, ",");
	uint16_t port;
	RTE_ETH_FOREACH_DEV(port) {
		struct rte_eth_dev_info about;
		if (rte_eth_dev_info_get(port, &about) || about.device == NULL)
			continue;
		const char *name = rte_dev_name(about.device);
		size_t whole = strlen(name);
		/* PCI addresses may be written without their domain. */
		if (whole >= length && strncmp(name + whole - length, device, length) == 0)
			return port;
	}
	return -ENODEV;
}

/* The key gives both directions between two addresses the same hash: it repeats after 16 bits, by which both differ
 * (Woo and Park, "Scalable TCP session monitoring with symmetric receive-side scaling", 2012). */
static uint8_t symmetric_key[SYMMETRIC_KEY_BYTES];

void want_rss(struct rte_eth_conf *conf, const struct rte_eth_dev_info *about)
{
	for (size_t at = 0; at < sizeof(symmetric_key); at += 2) {
		symmetric_key[at] = 0x6d;
		symmetric_key[at + 1] = 0x5a;
	}
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_key = symmetric_key;
	conf->rx_adv_conf.rss_conf.rss_key_len = about->hash_key_size ? about->hash_key_size : 40;
	/* Addresses alone: with ports, fragments of a packet would reach another queue than the rest. */
	conf->rx_adv_conf.rss_conf.rss_hf = about->flow_type_rss_offloads &
		(RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6);
}

/* Whether the device distributes packets to queues by their addresses, both directions alike. */
static int has_rss(const struct rte_eth_dev_info *about)
{
	uint64_t needed = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6;
	return (about->flow_type_rss_offloads & needed) == needed &&
		about->hash_key_size <= sizeof(symmetric_key);
}

/* The memory of a queue's packets. It stays with the port's number: a burst may have packets after the device is closed. */
static struct rte_mempool *pool_of(uint16_t port, uint16_t queue, uint64_t bytes, uint16_t descriptors)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof(name), "weir%u_%u", port, queue);
	struct rte_mempool *pool = rte_mempool_lookup(name);
	if (pool != NULL)
		return pool;
	/* A buffer, its description, and the header of the pool lie in one page. */
	uint64_t each = rte_eal_has_hugepages() ? BUFFER_BYTES + sizeof(struct rte_mbuf) + 64 : 4096;
	uint64_t count = bytes / each;
	/* What the device, two batches, and the caches of two threads hold. */
	uint64_t least = descriptors + 2 * BATCH_MAX + 2 * RTE_MEMPOOL_CACHE_MAX_SIZE;
	if (count < least)
		count = least;
	return rte_pktmbuf_pool_create(name, (unsigned)count, 256, 0, BUFFER_BYTES, rte_eth_dev_socket_id(port));
}

static int set_up(uint16_t port, const struct rte_eth_dev_info *about, const struct weir_dpdk_settings *settings,
		  struct weir_dpdk_port *opened, uint64_t offloads, uint16_t mtu)
{
	struct rte_eth_conf conf = { .rxmode = { .offloads = offloads, .mtu = mtu } };
	uint16_t receive = (uint16_t)opened->queues, send = receive;
	if (receive > 1)
		want_rss(&conf, about);
	/* Nothing is sent, but some drivers refuse to start without queues to send from. */
	if (send > about->max_tx_queues)
		send = about->max_tx_queues;
	int failed = rte_eth_dev_configure(port, receive, send, &conf);
	if (failed)
		return failed;
	uint16_t descriptors = (uint16_t)(settings->descriptors > UINT16_MAX ? UINT16_MAX : settings->descriptors);
	uint16_t to_send = 64;
	failed = rte_eth_dev_adjust_nb_rx_tx_desc(port, &descriptors, &to_send);
	if (failed)
		return failed;
	opened->descriptors = descriptors;
	for (uint16_t queue = 0; queue < receive; queue++) {
		struct rte_mempool *pool = pool_of(port, queue, settings->buffer_bytes, descriptors);
		if (pool == NULL)
			return -rte_errno;
		struct rte_eth_rxconf of_queue = about->default_rxconf;
		of_queue.offloads = conf.rxmode.offloads;
		failed = rte_eth_rx_queue_setup(port, queue, descriptors, rte_eth_dev_socket_id(port), &of_queue, pool);
		if (failed)
			return failed;
	}
	for (uint16_t queue = 0; queue < send; queue++) {
		failed = rte_eth_tx_queue_setup(port, queue, to_send, rte_eth_dev_socket_id(port), NULL);
		if (failed)
			return failed;
	}
	failed = rte_eth_dev_start(port);
	/* Some drivers do not support this, and begin at 0 anyway. */
	if (!failed)
		rte_eth_stats_reset(port);
	return failed;
}

static void find_clock(uint16_t port, int is_wanted, struct weir_dpdk_port *opened)
{
	struct clock *clock = &clocks[port];
	clock->kind = NO_CLOCK;
	time_offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
	int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);
	if (time_offset < 0 || flag < 0)
		return;
	time_flag = 1ull << flag;
	/* Times of libpcap, in microseconds. Other devices give numbers of their own clocks. */
	if (strcmp(opened->driver, "net_pcap") == 0)
		clock->kind = MICROSECONDS;
	else if (is_wanted)
		calibrate(port, clock);
	opened->has_times = clock->kind != NO_CLOCK;
}

EXPORTED int weir_dpdk_open(uint16_t port, const struct weir_dpdk_settings *settings, struct weir_dpdk_port *opened)
{
	struct rte_eth_dev_info about;
	int failed = rte_eth_dev_info_get(port, &about);
	if (failed)
		return failed;
	memset(opened, 0, sizeof(*opened));
	opened->number = port;
	snprintf(opened->driver, sizeof(opened->driver), "%s", about.driver_name ? about.driver_name : "");
	opened->queues = settings->queues;
	if (opened->queues > about.max_rx_queues || opened->queues > WEIR_DPDK_QUEUES_MAX || !has_rss(&about))
		opened->queues = 1;
	uint64_t times = settings->hardware_time ? about.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP : 0;
	uint64_t scatter = about.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	uint16_t mtu = about.max_mtu < JUMBO_MTU ? about.max_mtu : JUMBO_MTU;
	failed = scatter ? set_up(port, &about, settings, opened, times | scatter, mtu) : -ENOTSUP;
	/* The usual MTU, if the device takes no jumbo frames. */
	if (failed)
		failed = set_up(port, &about, settings, opened, times, 0);
	if (failed)
		return failed;
	find_clock(port, settings->hardware_time, opened);
	/* Drivers of devices that receive every packet anyway do not know the mode. */
	if (settings->promiscuous)
		rte_eth_promiscuous_enable(port);
	else
		rte_eth_promiscuous_disable(port);
	return 0;
}

EXPORTED int weir_dpdk_count(uint16_t port, struct weir_dpdk_counters *counters)
{
	struct rte_eth_stats stats;
	int failed = rte_eth_stats_get(port, &stats);
	if (!failed)
		*counters = (struct weir_dpdk_counters){ stats.imissed, stats.rx_nombuf, stats.ierrors };
	return failed;
}

EXPORTED int weir_dpdk_link(uint16_t port)
{
	struct rte_eth_link link;
	if (rte_eth_dev_is_removed(port))
		return -ENODEV;
	if (rte_eth_link_get_nowait(port, &link))
		return 1;
	return link.link_status == RTE_ETH_LINK_UP;
}

EXPORTED void weir_dpdk_close(uint16_t port)
{
	weir_dpdk_remove_rules(port);
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
}

/* ---- Packets. ---- */

/* Puts a tag that the device removed back behind the addresses. */
static void restore_tag(struct rte_mbuf *packet, uint16_t type, uint16_t tag)
{
	uint16_t words[2] = { rte_cpu_to_be_16(type), rte_cpu_to_be_16(tag) };
	if (packet->data_len < ADDRESSES_BYTES)
		return;
	char *start = rte_pktmbuf_prepend(packet, sizeof(words));
	if (start == NULL)
		return;
	memmove(start, start + sizeof(words), ADDRESSES_BYTES);
	memcpy(start + ADDRESSES_BYTES, words, sizeof(words));
}

/* Describes a packet. Returns whether there was memory for it. */
static int describe(struct rte_mbuf *packet, const struct clock *clock, struct weir_dpdk_packet *described)
{
	uint64_t has = packet->ol_flags;
	/* The inner tag first. */
	if (has & RTE_MBUF_F_RX_VLAN_STRIPPED)
		restore_tag(packet, RTE_ETHER_TYPE_VLAN, packet->vlan_tci);
	if (has & RTE_MBUF_F_RX_QINQ_STRIPPED)
		restore_tag(packet, RTE_ETHER_TYPE_QINQ, packet->vlan_tci_outer);
	*described = (struct weir_dpdk_packet){ .owner = packet };
	read_time(clock, packet, described);
	described->length = rte_pktmbuf_pkt_len(packet);
	if (has & RTE_MBUF_F_RX_RSS_HASH) {
		described->rss_hash = packet->hash.rss;
		described->flags |= WEIR_DPDK_HASHED;
	}
	uint64_t ip = has & RTE_MBUF_F_RX_IP_CKSUM_MASK, l4 = has & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || l4 == RTE_MBUF_F_RX_L4_CKSUM_BAD)
		described->flags |= WEIR_DPDK_CHECKSUM_BAD;
	else if (l4 == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		described->flags |= WEIR_DPDK_CHECKSUM_GOOD;
	described->bytes = rte_pktmbuf_mtod(packet, const uint8_t *);
	if (rte_pktmbuf_is_contiguous(packet))
		return 1;
	void *joined = described->length <= WEIR_DPDK_PACKET_BYTES_MAX ? malloc(described->length) : NULL;
	const void *bytes = joined ? rte_pktmbuf_read(packet, 0, described->length, joined) : NULL;
	rte_pktmbuf_free(packet);
	if (bytes == NULL) {
		free(joined);
		return 0;
	}
	described->bytes = joined;
	described->owner = joined;
	described->flags |= WEIR_DPDK_JOINED;
	return 1;
}

EXPORTED int weir_dpdk_receive(uint16_t port, uint16_t queue, struct weir_dpdk_packet *packets, uint32_t most,
			       uint64_t *lost)
{
	struct rte_mbuf *received[BATCH_MAX];
	if (!is_known)
		register_thread();
	uint16_t count = rte_eth_rx_burst(port, queue, received, (uint16_t)(most < BATCH_MAX ? most : BATCH_MAX));
	int described = 0;
	for (uint16_t at = 0; at < count; at++) {
		if (describe(received[at], &clocks[port], &packets[described]))
			described++;
		else
			++*lost;
	}
	return described;
}

EXPORTED void weir_dpdk_release_packets(const struct weir_dpdk_packet *packets, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++) {
		if (packets[at].flags & WEIR_DPDK_JOINED)
			free(packets[at].owner);
		else
			rte_pktmbuf_free(packets[at].owner);
	}
}
