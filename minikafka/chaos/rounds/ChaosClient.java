import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One client of a load of chaos: ChaosClient KIND NAME NAME=VALUE...
 *
 * <p>What it does and is told goes to standard output, an event of the history per line: [process, type, function,
 * value]. What it is about to do it tells first, and waits until that is noted: a pipe may be slow, and another client may
 * see what this one does. On standard input "n" says that it is noted, "s" that nobody sends any more, and "e" that it is
 * to end. When standard input ends before, nobody is interested any more, and it ends at once.
 */
public final class ChaosClient {
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final int TICK_MS = 20;
    private static final int TRANSACTION_RECORDS = 100;
    private static final double ABORTED = 0.15;

    private static volatile boolean over;
    private static volatile boolean sent;
    private static final Semaphore NOTED = new Semaphore(0);
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private final String name;
    private final Map<String, String> given;
    private final String topic;
    private final int partitions;
    private final Random random;
    private int number;

    private ChaosClient(String name, Map<String, String> given) {
        this.name = name;
        this.given = given;
        this.topic = given.get("topic");
        this.partitions = Integer.parseInt(given.get("partitions"));
        this.random = new Random(Long.parseLong(given.get("seed")));
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int i = 2; i < words.length; i++) {
            String[] parts = words[i].split("=", 2);
            given.put(parts[0], parts[1]);
        }
        Thread ear = new Thread(ChaosClient::listen);
        ear.setDaemon(true);
        ear.start();
        ChaosClient client = new ChaosClient(words[1], given);
        for (int life = 1; !over; life++) {
            String process = words[1] + "." + life;
            try {
                switch (words[0]) {
                    case "writer" -> client.write(process);
                    case "follower" -> client.follow(process);
                    case "member" -> client.beMember(process);
                    case "transactor" -> client.transact(process);
                    default -> throw new IllegalArgumentException(words[0]);
                }
            } catch (KafkaException error) { // it could not begin, go on, or end
                note(process, "info", "fault", text("the client gave up: " + error));
                Thread.sleep(10 * TICK_MS);
            }
        }
        OUT.flush();
        System.exit(0);
    }

    private static void listen() {
        try {
            while (true) {
                int got = System.in.read();
                if (got < 0) {
                    break;
                }
                switch (got) {
                    case 'n' -> NOTED.release();
                    case 's' -> sent = true;
                    default -> {
                        over = true;
                        NOTED.release(Integer.MAX_VALUE / 2); // nobody notes any more
                    }
                }
            }
        } catch (java.io.IOException error) {
            // as its end
        }
        if (!over) {
            Runtime.getRuntime().halt(1);
        }
    }

    // -- kinds -----------------------------------------------------------------------------------------------------

    private void write(String process) throws InterruptedException {
        ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<String> untold = new ConcurrentLinkedQueue<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(forProducers(Map.of()))) {
            Pace pace = new Pace(Double.parseDouble(given.get("rate")));
            while (!over) {
                List<ProducerRecord<byte[], byte[]>> records = next(process, pace.due());
                if (!records.isEmpty()) {
                    announce(process, "send", items(records));
                }
                for (ProducerRecord<byte[], byte[]> record : records) {
                    producer.send(record, (metadata, error) -> {
                        if (error == null) {
                            told.add(item(record, metadata.offset()));
                        } else { // it may be written nevertheless
                            untold.add(item(record, null));
                        }
                    });
                }
                noteAll(process, told, untold);
                Thread.sleep(TICK_MS);
            }
            producer.close(LIMIT);
        } finally {
            noteAll(process, told, untold);
        }
    }

    private static void announce(String process, String function, String value) {
        note(process, "invoke", function, value);
        NOTED.acquireUninterruptibly();
    }

    private static void noteAll(
            String process, ConcurrentLinkedQueue<String> told, ConcurrentLinkedQueue<String> untold) {
        for (var each : List.of(Map.entry("ok", told), Map.entry("info", untold))) {
            StringJoiner items = list();
            for (String item = each.getValue().poll(); item != null; item = each.getValue().poll()) {
                items.add(item);
            }
            if (items.length() > 2) {
                note(process, each.getKey(), "send", items.toString());
            }
        }
    }

    private void follow(String process) {
        boolean committed = Boolean.parseBoolean(given.get("committed"));
        String suffix = committed ? "_committed" : "";
        Map<String, Object> own = Map.of(
                "isolation.level", committed ? "read_committed" : "read_uncommitted",
                "enable.auto.commit", false,
                "auto.offset.reset", "none");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(forConsumers(own))) {
            List<TopicPartition> all = new ArrayList<>();
            StringJoiner places = list();
            for (int partition = 0; partition < partitions; partition++) {
                all.add(new TopicPartition(topic, partition));
                places.add("[" + text(topic + "-" + partition) + ",0]");
            }
            consumer.assign(all);
            all.forEach(partition -> consumer.seek(partition, 0));
            note(process, "ok", "assign" + suffix, places.toString());
            while (!over) {
                notePolled(process, "poll" + suffix, consumer);
            }
        }
    }

    private void beMember(String process) {
        Map<String, Object> own = new HashMap<>(Map.of(
                "group.id", given.get("group"),
                "group.protocol", given.get("protocol"),
                "auto.commit.interval.ms", 500,
                "auto.offset.reset", "earliest"));
        if (given.get("protocol").equals("classic")) {
            own.putAll(Map.of("session.timeout.ms", 6_000, "heartbeat.interval.ms", 500));
        }
        long endsAt = System.nanoTime() + (long) ((3 + 12 * random.nextDouble()) * 1e9);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(forConsumers(own))) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    StringJoiner places = list();
                    assigned.forEach(each -> places.add(text(each.toString())));
                    note(process, "ok", "assign", places.toString());
                }
            });
            while (!over && (System.nanoTime() < endsAt || sent)) {
                notePolled(process, "poll", consumer);
            }
        }
    }

    private static void notePolled(String process, String function, KafkaConsumer<byte[], byte[]> consumer) {
        StringJoiner items = list();
        for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(200))) {
            String id = new String(each.key(), StandardCharsets.UTF_8);
            String known = java.util.Arrays.equals(each.value(), valueOf(id)) ? id : id + "#damaged";
            items.add("[" + text(each.topic() + "-" + each.partition()) + "," + text(known) + "," + each.offset() + "]");
        }
        if (items.length() > 2) {
            note(process, "ok", function, items.toString());
        }
    }

    private void transact(String process) throws InterruptedException {
        Map<String, Object> own = Map.of(
                "transactional.id", name, "transaction.timeout.ms", Integer.parseInt(given.get("timeout.ms")));
        announce(process, "take_over", "[" + text(name) + "]");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(forProducers(own))) {
            producer.initTransactions();
            note(process, "ok", "take_over", "[" + text(name) + "]");
            Pace pace = new Pace(Double.parseDouble(given.get("rate")));
            int due = 0;
            while (!over) {
                due += pace.due();
                if (due < TRANSACTION_RECORDS) {
                    Thread.sleep(TICK_MS);
                    continue;
                }
                due -= TRANSACTION_RECORDS;
                transactOnce(process, producer, next(process, TRANSACTION_RECORDS));
            }
        }
    }

    /** One transaction. KafkaException: nobody knows, or the producer cannot go on. */
    private void transactOnce(
            String process,
            KafkaProducer<byte[], byte[]> producer,
            List<ProducerRecord<byte[], byte[]>> records) {
        String transaction = "[" + text(process + "/" + number) + "]";
        announce(process, "begin", transaction);
        producer.beginTransaction();
        announce(process, "send", items(records));
        List<Future<RecordMetadata>> deliveries = new ArrayList<>();
        boolean asked = false;
        try {
            for (ProducerRecord<byte[], byte[]> record : records) {
                deliveries.add(producer.send(record));
            }
            producer.flush();
            if (random.nextDouble() >= ABORTED) {
                announce(process, "commit", transaction);
                asked = true;
                commit(producer);
                note(process, "ok", "commit", transaction);
                StringJoiner items = list();
                for (int i = 0; i < records.size(); i++) {
                    items.add(item(records.get(i), deliveries.get(i).get().offset()));
                }
                note(process, "ok", "send", items.toString());
                return;
            }
        } catch (InterruptedException | java.util.concurrent.ExecutionException error) {
            throw new IllegalStateException(error);
        } catch (KafkaException error) {
            if (asked && !abortable(error)) {
                throw error;
            }
        }
        producer.abortTransaction(); // a fenced producer throws, and nobody knows
        note(process, "fail", "commit", transaction);
        note(process, "fail", "send", items(records));
    }

    /** A commit that timed out may be asked for again, and nothing else may. */
    private static void commit(KafkaProducer<byte[], byte[]> producer) {
        long giveUpAt = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (org.apache.kafka.common.errors.TimeoutException error) {
                if (System.nanoTime() > giveUpAt) {
                    throw error;
                }
            }
        }
    }

    private static boolean abortable(KafkaException error) {
        return !(error instanceof org.apache.kafka.common.errors.ProducerFencedException
                || error instanceof org.apache.kafka.common.errors.InvalidProducerEpochException
                || error instanceof org.apache.kafka.common.errors.TimeoutException);
    }

    // -- clients ---------------------------------------------------------------------------------------------------

    private Map<String, Object> forProducers(Map<String, Object> own) {
        Map<String, Object> settings = common(own);
        settings.put("key.serializer", ByteArraySerializer.class);
        settings.put("value.serializer", ByteArraySerializer.class);
        settings.put("acks", "all");
        settings.put("linger.ms", 5);
        settings.put("delivery.timeout.ms", 60_000);
        settings.put("max.block.ms", 30_000);
        return settings;
    }

    private Map<String, Object> forConsumers(Map<String, Object> own) {
        Map<String, Object> settings = common(own);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("fetch.max.wait.ms", 200);
        settings.put("max.poll.records", 2_000);
        return settings;
    }

    private Map<String, Object> common(Map<String, Object> own) {
        Map<String, Object> settings = new HashMap<>(own);
        settings.putAll(howToConnect());
        settings.put("bootstrap.servers", given.get("servers"));
        settings.put("client.id", given.get("client.id"));
        settings.put("request.timeout.ms", 5_000);
        settings.put("default.api.timeout.ms", 30_000);
        settings.put("reconnect.backoff.max.ms", 500);
        settings.put("retry.backoff.ms", 50);
        settings.put("retry.backoff.max.ms", 200);
        return settings;
    }

    private Map<String, Object> howToConnect() {
        Map<String, Object> found = new HashMap<>();
        if (given.containsKey("command.config")) {
            Properties properties = new Properties();
            try (InputStream file = new FileInputStream(given.get("command.config"))) {
                properties.load(file);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            properties.forEach((key, value) -> found.put((String) key, value));
        }
        return found;
    }

    private List<ProducerRecord<byte[], byte[]>> next(String process, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String key = process + "-" + ++number;
            records.add(new ProducerRecord<>(
                    topic, number % partitions, key.getBytes(StandardCharsets.UTF_8), valueOf(key)));
        }
        return records;
    }

    private static byte[] valueOf(String key) {
        CRC32 sum = new CRC32();
        sum.update(key.getBytes(StandardCharsets.UTF_8));
        String text = key + "/" + String.format(Locale.ROOT, "%08x", sum.getValue()).repeat(12);
        return text.substring(0, Math.min(100, text.length())).getBytes(StandardCharsets.UTF_8);
    }

    // -- events ----------------------------------------------------------------------------------------------------

    private static void note(String process, String type, String function, String value) {
        synchronized (OUT) {
            OUT.println("[" + text(process) + "," + text(type) + "," + text(function) + "," + value + "]");
            OUT.flush();
        }
    }

    private static StringJoiner list() {
        return new StringJoiner(",", "[", "]");
    }

    private static String items(List<ProducerRecord<byte[], byte[]>> records) {
        StringJoiner items = list();
        records.forEach(record -> items.add(item(record, null)));
        return items.toString();
    }

    private static String item(ProducerRecord<byte[], byte[]> record, Long offset) {
        String key = new String(record.key(), StandardCharsets.UTF_8);
        return "[" + text(record.topic() + "-" + record.partition()) + "," + text(key)
                + (offset == null ? "" : "," + offset) + "]";
    }

    private static String text(String raw) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : raw.toCharArray()) {
            if (each == '"' || each == '\\' || each < ' ') {
                quoted.append(String.format(Locale.ROOT, "\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }

    /** How many records are due, at an even rate; at most a second's worth at once. */
    private static final class Pace {
        private final double rate;
        private double due;
        private long last = System.nanoTime();

        Pace(double rate) {
            this.rate = rate;
        }

        int due() {
            long now = System.nanoTime();
            due = Math.min(due + (now - last) / 1e9 * rate, rate);
            last = now;
            int count = (int) due;
            due -= count;
            return count;
        }
    }
}
