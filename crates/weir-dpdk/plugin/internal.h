/* What the files of the plug-in share. */
#ifndef WEIR_DPDK_INTERNAL_H
#define WEIR_DPDK_INTERNAL_H

#include <sys/types.h>

#include <rte_ethdev.h>

#include "weir_dpdk.h"

#define EXPORTED __attribute__((visibility("default")))
/* Bytes of the longest key of a device. */
#define SYMMETRIC_KEY_BYTES 64

/* Adds text to the log. The cookie is not used. */
ssize_t write_log(void *cookie, const char *text, size_t bytes);
/* Asks for the distribution of packets to queues by their addresses, both directions alike. */
void want_rss(struct rte_eth_conf *conf, const struct rte_eth_dev_info *about);

#endif
