-- Connections of all sensors, read from the topic weir.conn: docs/fleet.md. The columns are those of `weir flows`.

CREATE DATABASE IF NOT EXISTS weir;

-- Rows of batches that a sensor has sent twice replace each other: with FINAL at once, otherwise when parts are merged.
CREATE TABLE IF NOT EXISTS weir.conn
(
    `sensor` LowCardinality(String),
    `ts` DateTime64(9, 'UTC'),
    `uid` String,
    `id.orig_h` String,
    `id.orig_p` Nullable(UInt64),
    `id.resp_h` String,
    `id.resp_p` Nullable(UInt64),
    `proto` LowCardinality(String),
    `service` LowCardinality(String),
    `duration` Nullable(Float64),
    `orig_bytes` Nullable(UInt64),
    `resp_bytes` Nullable(UInt64),
    `conn_state` LowCardinality(String),
    `local_orig` Nullable(Bool),
    `local_resp` Nullable(Bool),
    `missed_bytes` Nullable(UInt64),
    `history` String,
    `orig_pkts` Nullable(UInt64),
    `orig_ip_bytes` Nullable(UInt64),
    `resp_pkts` Nullable(UInt64),
    `resp_ip_bytes` Nullable(UInt64),
    `tunnel_parents` Array(String),
    `ip_proto` Nullable(UInt64),
    `community_id` String,
    `vlan` Nullable(UInt64),
    `inner_vlan` Nullable(UInt64),
    `rtt` Nullable(Float64),
    `orig_retrans` Nullable(UInt64),
    `resp_retrans` Nullable(UInt64),
    `orig_out_of_order` Nullable(UInt64),
    `resp_out_of_order` Nullable(UInt64)
,
    `run` LowCardinality(String),
    `sequence` UInt64
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(`ts`)
ORDER BY (`sensor`, `ts`, `uid`);

-- A consumer, without rows of its own.
CREATE TABLE IF NOT EXISTS weir.conn_queue
(
    `sensor` LowCardinality(String),
    `ts` DateTime64(9, 'UTC'),
    `uid` String,
    `id.orig_h` String,
    `id.orig_p` Nullable(UInt64),
    `id.resp_h` String,
    `id.resp_p` Nullable(UInt64),
    `proto` LowCardinality(String),
    `service` LowCardinality(String),
    `duration` Nullable(Float64),
    `orig_bytes` Nullable(UInt64),
    `resp_bytes` Nullable(UInt64),
    `conn_state` LowCardinality(String),
    `local_orig` Nullable(Bool),
    `local_resp` Nullable(Bool),
    `missed_bytes` Nullable(UInt64),
    `history` String,
    `orig_pkts` Nullable(UInt64),
    `orig_ip_bytes` Nullable(UInt64),
    `resp_pkts` Nullable(UInt64),
    `resp_ip_bytes` Nullable(UInt64),
    `tunnel_parents` Array(String),
    `ip_proto` Nullable(UInt64),
    `community_id` String,
    `vlan` Nullable(UInt64),
    `inner_vlan` Nullable(UInt64),
    `rtt` Nullable(Float64),
    `orig_retrans` Nullable(UInt64),
    `resp_retrans` Nullable(UInt64),
    `orig_out_of_order` Nullable(UInt64),
    `resp_out_of_order` Nullable(UInt64)

)
ENGINE = Kafka
SETTINGS kafka_broker_list = 'kafka:19092', kafka_topic_list = 'weir.conn', kafka_group_name = 'clickhouse',
    kafka_format = 'ArrowStream', kafka_num_consumers = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS weir.conn_view TO weir.conn AS
SELECT
    *,
    `_headers.value`[indexOf(`_headers.name`, 'run')] AS run,
    toUInt64OrZero(`_headers.value`[indexOf(`_headers.name`, 'sequence')]) AS sequence
FROM weir.conn_queue;
