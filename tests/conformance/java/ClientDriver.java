import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Kafka's Java clients and command-line tools in one long-lived JVM: a JVM start costs more than most tests.
 *
 * One JSON command per line on stdin, one JSON answer per line on stdout. Byte strings are base64, absent ones null.
 * A tool runs through its own main method, its streams captured and its exit turned into a number.
 */
public final class ClientDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Scala's Console keeps the stream it saw first, so the stream stays and its target is switched. */
    private static final class SwitchedStream extends OutputStream {
        OutputStream target;

        SwitchedStream(OutputStream target) {
            this.target = target;
        }

        @Override
        public void write(int b) throws java.io.IOException {
            target.write(b);
        }

        @Override
        public void write(byte[] b, int offset, int length) throws java.io.IOException {
            target.write(b, offset, length);
        }

        @Override
        public void flush() throws java.io.IOException {
            target.flush();
        }
    }

    private static final class ExitException extends RuntimeException {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        SwitchedStream out = new SwitchedStream(System.err);
        SwitchedStream err = new SwitchedStream(System.err);
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        OutputStream realErr = err.target;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                switch (command.get("do").asText()) {
                    case "produce" -> produce(command, answer);
                    case "consume" -> consume(command, answer);
                    case "offset_for_time" -> offsetForTime(command, answer);
                    case "partition_files" -> partitionFiles(command, answer);
                    case "tool" -> tool(command, answer, out, err, realErr);
                    default -> throw new IllegalArgumentException(line);
                }
            } catch (Exception e) {
                answer.put("failure", e.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // tools leave shutdown hooks that wait for their own clients
    }

    private static Map<String, Object> config(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        command.get("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return config;
    }

    private static byte[] bytes(JsonNode node) throws java.io.IOException {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    private static void produce(JsonNode command, ObjectNode answer) throws Exception {
        String topic = command.get("topic").asText();
        ArrayNode results = answer.putArray("results");
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config(command), serializer, serializer)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode r : command.get("records")) {
                Long timestamp = r.get("timestamp").isNull() ? null : r.get("timestamp").asLong();
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    topic, command.get("partition").asInt(), timestamp, bytes(r.get("key")), bytes(r.get("value")));
                for (JsonNode header : r.get("headers")) {
                    record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                ObjectNode result = results.addObject();
                try {
                    RecordMetadata metadata = future.get();
                    result.put("offset", metadata.hasOffset() ? metadata.offset() : -1);
                    result.put("timestamp", metadata.timestamp());
                } catch (ExecutionException e) {
                    result.put("error", Errors.forException(e.getCause()).code());
                }
            }
        }
    }

    private static void consume(JsonNode command, ObjectNode answer) throws Exception {
        TopicPartition partition =
            new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
        int count = command.get("count").asInt();
        ArrayNode records = answer.putArray("records");
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(command), deserializer, deserializer)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, command.get("offset").asLong());
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    ObjectNode record = records.addObject();
                    record.put("offset", r.offset());
                    record.put("timestamp", r.timestamp());
                    record.put("timestamp_type", r.timestampType().toString());
                    record.put("key", r.key());
                    record.put("value", r.value());
                    ArrayNode headers = record.putArray("headers");
                    for (Header header : r.headers()) {
                        headers.addArray().add(header.key()).add(header.value());
                    }
                }
            }
        }
    }

    private static void offsetForTime(JsonNode command, ObjectNode answer) {
        TopicPartition partition =
            new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(command), deserializer, deserializer)) {
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(partition, command.get("timestamp").asLong())).get(partition);
            if (found == null) {
                answer.putNull("offset");
            } else {
                answer.put("offset", found.offset());
            }
        }
    }

    /** The small files of a partition, read by the classes that Kafka's broker reads them with. */
    private static void partitionFiles(JsonNode command, ObjectNode answer) throws Exception {
        File directory = new File(command.get("directory").asText());
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        PartitionMetadataFile metadata = new PartitionMetadataFile(PartitionMetadataFile.newFile(directory), failures);
        answer.put("topic_id", metadata.read().topicId().toString());
        ArrayNode epochs = answer.putArray("epochs");
        File checkpoint = LeaderEpochCheckpointFile.newFile(directory);
        for (EpochEntry entry : new LeaderEpochCheckpointFile(checkpoint, failures).read()) {
            epochs.addArray().add(entry.epoch()).add(entry.startOffset());
        }
    }

    private static void tool(
            JsonNode command, ObjectNode answer, SwitchedStream out, SwitchedStream err, OutputStream realErr)
            throws Exception {
        List<String> arguments = new ArrayList<>();
        command.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        List<Integer> exits = new ArrayList<>(); // some tools catch the first exit and exit once more
        Exit.Procedure procedure = (code, message) -> {
            exits.add(code);
            throw new ExitException();
        };
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
        System.setIn(new ByteArrayInputStream(bytes(command.get("input"))));
        out.target = output;
        err.target = errors;
        try {
            Class.forName(command.get("class").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (java.lang.reflect.InvocationTargetException e) {
            if (exits.isEmpty()) {
                exits.add(1);
                e.getCause().printStackTrace(new PrintStream(errors, true));
            }
        } finally {
            System.out.flush();
            System.err.flush();
            out.target = realErr;
            err.target = realErr;
        }
        answer.put("code", exits.isEmpty() ? 0 : exits.get(0));
        answer.put("output", output.toByteArray());
        answer.put("errors", errors.toString(StandardCharsets.UTF_8));
    }
}
