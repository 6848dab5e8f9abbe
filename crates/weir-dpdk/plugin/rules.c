/* Rules about headers (rte_flow): a device discards packets that no question needs. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include "internal.h"

static struct rte_flow *flows[RTE_MAX_ETHPORTS][WEIR_DPDK_RULES_MAX];
static int flow_counts[RTE_MAX_ETHPORTS];

/* The layers of a rule. The items point into this structure. */
struct pattern {
	struct rte_flow_item_ipv4 ipv4, ipv4_mask;
	struct rte_flow_item_ipv6 ipv6, ipv6_mask;
	/* TCP and UDP begin with the two ports. */
	struct rte_flow_item_tcp tcp, tcp_mask;
	struct rte_flow_item_udp udp, udp_mask;
	struct rte_flow_item items[4];
};

static void make_pattern(const struct weir_dpdk_rule *rule, struct pattern *made)
{
	uint16_t ports[2][2] = { { rule->source_port, rule->destination_port },
				 { rule->source_port_mask, rule->destination_port_mask } };
	memset(made, 0, sizeof(*made));
	made->items[0].type = RTE_FLOW_ITEM_TYPE_ETH;
	made->items[3].type = RTE_FLOW_ITEM_TYPE_END;
	if (rule->version == 4) {
		memcpy(&made->ipv4.hdr.src_addr, rule->source, 4);
		memcpy(&made->ipv4_mask.hdr.src_addr, rule->source_mask, 4);
		memcpy(&made->ipv4.hdr.dst_addr, rule->destination, 4);
		memcpy(&made->ipv4_mask.hdr.dst_addr, rule->destination_mask, 4);
		made->ipv4.hdr.next_proto_id = rule->transport;
		made->ipv4_mask.hdr.next_proto_id = 0xff;
		/* Fragments are never discarded. */
		if (rule->discards)
			made->ipv4_mask.hdr.fragment_offset =
				rte_cpu_to_be_16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK);
		made->items[1] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &made->ipv4,
							 .mask = &made->ipv4_mask };
	} else {
		memcpy(made->ipv6.hdr.src_addr, rule->source, 16);
		memcpy(made->ipv6_mask.hdr.src_addr, rule->source_mask, 16);
		memcpy(made->ipv6.hdr.dst_addr, rule->destination, 16);
		memcpy(made->ipv6_mask.hdr.dst_addr, rule->destination_mask, 16);
		/* Directly behind the header: neither fragments nor extension headers. */
		made->ipv6.hdr.proto = rule->transport;
		made->ipv6_mask.hdr.proto = 0xff;
		made->items[1] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &made->ipv6,
							 .mask = &made->ipv6_mask };
	}
	if (rule->transport == IPPROTO_TCP) {
		memcpy(&made->tcp, ports[0], sizeof(ports[0]));
		memcpy(&made->tcp_mask, ports[1], sizeof(ports[1]));
		made->items[2] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_TCP, .spec = &made->tcp,
							 .mask = &made->tcp_mask };
	} else {
		memcpy(&made->udp, ports[0], sizeof(ports[0]));
		memcpy(&made->udp_mask, ports[1], sizeof(ports[1]));
		made->items[2] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &made->udp,
							 .mask = &made->udp_mask };
	}
}

EXPORTED int weir_dpdk_add_rule(uint16_t port, const struct weir_dpdk_rule *rule)
{
	struct rte_eth_dev_info about;
	int failed = rte_eth_dev_info_get(port, &about);
	if (failed)
		return failed;
	if (flow_counts[port] >= WEIR_DPDK_RULES_MAX || about.nb_rx_queues > WEIR_DPDK_QUEUES_MAX)
		return -ENOSPC;
	struct pattern pattern;
	make_pattern(rule, &pattern);
	/* Packets that pass are distributed as all packets are. */
	uint16_t queues[WEIR_DPDK_QUEUES_MAX];
	for (uint16_t queue = 0; queue < about.nb_rx_queues; queue++)
		queues[queue] = queue;
	struct rte_flow_action_queue to_queue = { .index = 0 };
	struct rte_eth_conf conf = { 0 };
	want_rss(&conf, &about);
	struct rte_flow_action_rss to_queues = {
		.types = conf.rx_adv_conf.rss_conf.rss_hf,
		.key_len = conf.rx_adv_conf.rss_conf.rss_key_len,
		.key = conf.rx_adv_conf.rss_conf.rss_key,
		.queue_num = about.nb_rx_queues,
		.queue = queues,
	};
	struct rte_flow_action pass[] = {
		about.nb_rx_queues > 1 ?
			(struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &to_queues } :
			(struct rte_flow_action){ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to_queue },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_action_count count = { 0 };
	struct rte_flow_action discard[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_COUNT, .conf = &count },
		{ .type = RTE_FLOW_ACTION_TYPE_DROP },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	const struct rte_flow_action *actions = rule->discards ? discard : pass;
	struct rte_flow_attr attributes = { .ingress = 1, .priority = rule->discards ? 1 : 0 };
	struct rte_flow_error error = { 0 };
	failed = rte_flow_validate(port, &attributes, pattern.items, actions, &error);
	if (!failed) {
		struct rte_flow *flow = rte_flow_create(port, &attributes, pattern.items, actions, &error);
		if (flow != NULL) {
			flows[port][flow_counts[port]] = flow;
			return flow_counts[port]++;
		}
		failed = rte_errno ? -rte_errno : -EINVAL;
	}
	if (error.message != NULL)
		write_log(NULL, error.message, strlen(error.message));
	return failed;
}

EXPORTED int weir_dpdk_remove_rules(uint16_t port)
{
	struct rte_flow_error error = { 0 };
	if (flow_counts[port] == 0)
		return 0;
	int failed = rte_flow_flush(port, &error);
	if (!failed)
		flow_counts[port] = 0;
	return failed;
}

EXPORTED int weir_dpdk_count_rule(uint16_t port, int number, uint64_t *packets, uint64_t *bytes)
{
	struct rte_flow_query_count found = { 0 };
	struct rte_flow_action action[] = { { .type = RTE_FLOW_ACTION_TYPE_COUNT },
					    { .type = RTE_FLOW_ACTION_TYPE_END } };
	struct rte_flow_error error = { 0 };
	if (number < 0 || number >= flow_counts[port])
		return -EINVAL;
	int failed = rte_flow_query(port, flows[port][number], action, &found, &error);
	if (!failed) {
		*packets += found.hits_set ? found.hits : 0;
		*bytes += found.bytes_set ? found.bytes : 0;
	}
	return failed;
}
