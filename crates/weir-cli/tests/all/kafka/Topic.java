import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The other end of the tests, with Kafka's own client:
 *
 * <pre>
 * Topic create BROKER TOPIC BYTES   a topic of one partition with this max.message.bytes
 * Topic limit BROKER TOPIC BYTES    the topic has this max.message.bytes from now on
 * Topic read BROKER TOPIC           a line for each message: offset, key, headers as `name=value;`, value in hexadecimal digits
 * </pre>
 */
class Topic {
    public static void main(String[] args) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", args[1]);
        String topic = args[2];
        switch (args[0]) {
            case "create" -> {
                try (Admin admin = Admin.create(cluster)) {
                    var created = new NewTopic(topic, 1, (short) 1).configs(Map.of("max.message.bytes", args[3]));
                    admin.createTopics(List.of(created)).all().get();
                }
            }
            case "limit" -> {
                try (Admin admin = Admin.create(cluster)) {
                    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                    var entry = new ConfigEntry("max.message.bytes", args[3]);
                    var set = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                    admin.incrementalAlterConfigs(Map.of(resource, set)).all().get();
                }
            }
            case "read" -> read(cluster, new TopicPartition(topic, 0));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void read(Map<String, Object> cluster, TopicPartition partition) {
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(cluster, deserializer, deserializer)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            var lines = new ArrayList<String>();
            while (consumer.position(partition) < end) {
                for (var message : consumer.poll(Duration.ofMillis(200))) {
                    var headers = new StringBuilder();
                    message.headers().forEach(
                        header -> headers.append(header.key() + "=" + new String(header.value()) + ";"));
                    lines.add(message.offset() + "\t" + new String(message.key()) + "\t" + headers + "\t"
                        + HexFormat.of().formatHex(message.value()));
                }
            }
            lines.forEach(System.out::println);
        }
    }
}
