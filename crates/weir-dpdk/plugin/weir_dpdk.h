/* The interface between Weir and its plug-in for DPDK. `src/library.rs` has the same declarations for Rust.
 *
 * Weir loads the plug-in at run time, and calls nothing before weir_dpdk_version() has returned WEIR_DPDK_VERSION. Any
 * change of this file raises this number. No type of DPDK is part of the interface, because their layouts differ between
 * releases of DPDK.
 *
 * Functions return 0 or a count, and negated numbers of errno(3) if they fail. Texts of errors are in the log.
 */
#ifndef WEIR_DPDK_H
#define WEIR_DPDK_H

#include <stddef.h>
#include <stdint.h>

#define WEIR_DPDK_VERSION 1
/* Queues of a device at most. */
#define WEIR_DPDK_QUEUES_MAX 256
/* Rules of a device at most. */
#define WEIR_DPDK_RULES_MAX 1024
/* Bytes of a packet at most. Longer ones are lost. */
#define WEIR_DPDK_PACKET_BYTES_MAX 0xffffff

/* How a device is captured. */
struct weir_dpdk_settings {
	uint32_t queues;        /* receive queues wanted */
	uint32_t descriptors;   /* packets that each queue has room for, wanted */
	uint64_t buffer_bytes;  /* memory of packets for each queue */
	uint8_t promiscuous;    /* 1: packets for other hosts, too */
	uint8_t hardware_time;  /* 1: times of the device's clock, where it has one */
};

/* What a device gives. */
struct weir_dpdk_port {
	uint32_t queues;        /* as wanted, or 1: then one thread reads all packets */
	uint32_t descriptors;
	uint16_t number;
	uint8_t has_times;      /* packets have times that the device gave them */
	char driver[32];
};

/* A packet. `owner` returns its memory. */
struct weir_dpdk_packet {
	const uint8_t *bytes;
	void *owner;
	uint64_t time_ns;       /* since 1970, if the device gave a time */
	uint32_t length;
	uint32_t rss_hash;
	uint32_t flags;         /* WEIR_DPDK_… */
};

#define WEIR_DPDK_JOINED 1u         /* the bytes are a copy of several segments */
#define WEIR_DPDK_HASHED 2u         /* rss_hash is valid */
#define WEIR_DPDK_CHECKSUM_GOOD 4u
#define WEIR_DPDK_CHECKSUM_BAD 8u
#define WEIR_DPDK_TIMED 16u         /* time_ns is valid */

/* Counters of a device since it was opened. */
struct weir_dpdk_counters {
	uint64_t missed;        /* the receive queue was full */
	uint64_t no_buffer;     /* no memory to receive into */
	uint64_t errors;        /* the device received the packet with an error */
};

/* A rule about the headers of packets: Ethernet, a version of IP, and a transport protocol directly behind it. Bytes and ports are in the
 * order of the network; bits outside of masks are 0. */
struct weir_dpdk_rule {
	uint8_t version;        /* 4 or 6 */
	uint8_t transport;      /* 6: TCP, 17: UDP */
	uint8_t discards;       /* 1: packets are discarded and counted, unless they are fragments; 0: they pass */
	uint8_t source[16], source_mask[16];             /* IPv4: the first four bytes */
	uint8_t destination[16], destination_mask[16];
	uint16_t source_port, source_port_mask;
	uint16_t destination_port, destination_port_mask;
};

/* The version of this interface. */
uint32_t weir_dpdk_version(void);
/* The release of DPDK, as text. */
const char *weir_dpdk_release(void);
/* Initialises DPDK with these arguments, once in a process. Binds the calling thread to a processor. */
int weir_dpdk_start(int count, char **arguments);
/* Moves text from the log of DPDK to `text`, which it ends with a NUL. Returns the number of bytes. */
size_t weir_dpdk_take_log(char *text, size_t bytes);
/* Calls a function soon in the thread that DPDK has for interrupts of devices. */
int weir_dpdk_call(void (*call)(void *), void *argument);
/* Attaches a device (DEVICE[,ARGUMENT=VALUE…]), and returns the number of its port. */
int weir_dpdk_attach(const char *device);
/* Sets up an attached device, and starts it. */
int weir_dpdk_open(uint16_t port, const struct weir_dpdk_settings *settings, struct weir_dpdk_port *opened);
/* Receives up to `most` packets (at most 64) of a queue. Adds packets that could not be joined to `lost`. */
int weir_dpdk_receive(uint16_t port, uint16_t queue, struct weir_dpdk_packet *packets, uint32_t most, uint64_t *lost);
/* Returns the memory of packets. Any thread may call this. */
void weir_dpdk_release_packets(const struct weir_dpdk_packet *packets, uint32_t count);
/* Counters of a device. */
int weir_dpdk_count(uint16_t port, struct weir_dpdk_counters *counters);
/* 1: the link is up; 0: down; -ENODEV: the device was removed. */
int weir_dpdk_link(uint16_t port);
/* Adds a rule; rules that pass packets precede the others. Returns the number of the rule on the device. */
int weir_dpdk_add_rule(uint16_t port, const struct weir_dpdk_rule *rule);
/* Removes all rules of a device: every packet passes. */
int weir_dpdk_remove_rules(uint16_t port);
/* Adds the packets and bytes that a rule of this number has discarded. */
int weir_dpdk_count_rule(uint16_t port, int number, uint64_t *packets, uint64_t *bytes);
/* Stops a device, and gives it back to the machine. */
void weir_dpdk_close(uint16_t port);

#endif
