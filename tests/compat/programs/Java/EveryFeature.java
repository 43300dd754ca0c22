import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Tries every feature of Java's clients: java EveryFeature SERVERS PREFIX. A line of JSON tells of each. */
public final class EveryFeature {
    static final long START_MS = 1_700_000_000_000L;
    static final int PARTITIONS = 4;
    static final Duration POLL = Duration.ofMillis(50);

    static String servers;
    static String prefix;
    static Admin admin;

    // -- what the features share ---------------------------------------------------------------------------------

    static Map<String, Object> settings(Object... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", servers));
        for (int at = 0; at < more.length; at += 2) {
            settings.put((String) more[at], more[at + 1]);
        }
        return settings;
    }

    static KafkaProducer<byte[], byte[]> producer(Object... more) {
        return new KafkaProducer<>(settings(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Object... more) {
        Map<String, Object> settings = settings("auto.offset.reset", "earliest", "enable.auto.commit", "false");
        settings.putAll(settings(more));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static String create(String name, int partitions) throws Exception {
        String topic = prefix + "-" + name;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 3))).all().get();
        return topic;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(ConsumerRecord<byte[], byte[]> record) {
        return new String(record.value(), StandardCharsets.UTF_8);
    }

    static void expect(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new IllegalStateException("found " + found + ", expected " + expected);
        }
    }

    static void eventually(Callable<Boolean> condition, String what) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("waited in vain for " + what);
            }
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> read(int count, List<KafkaConsumer<byte[], byte[]>> consumers)
            throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        eventually(() -> {
            for (var each : consumers) {
                each.poll(POLL).forEach(found::add);
            }
            return found.size() >= count;
        }, count + " records");
        return found;
    }

    static List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int count) throws Exception {
        try (var consumer = consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            return read(count, List.of(consumer));
        }
    }

    static void produce(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int first, int count)
            throws Exception {
        for (int number = first; number < first + count; number++) {
            long timestamp = START_MS + 1000L * number;
            producer.send(new ProducerRecord<>(topic, number % partitions, timestamp, null, bytes("" + number)));
        }
        producer.flush();
    }

    static Set<String> numbers(int first, int count) {
        Set<String> numbers = new HashSet<>();
        for (int number = first; number < first + count; number++) {
            numbers.add("" + number);
        }
        return numbers;
    }

    // -- the features --------------------------------------------------------------------------------------------

    static void topics() throws Exception {
        String topic = create("topics", 3);
        eventually(() -> admin.listTopics().names().get().contains(topic), "the topic");
        var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        expect(described.partitions().stream().map(each -> each.replicas().size()).toList(), List.of(3, 3, 3));
        try {
            create("topics", 3);
            throw new IllegalStateException("a topic was created twice");
        } catch (ExecutionException error) {
            expect(error.getCause().getClass(), TopicExistsException.class);
        }
        admin.deleteTopics(List.of(topic)).all().get();
        eventually(() -> !admin.listTopics().names().get().contains(topic), "the end of the topic");
    }

    static void compression(String codec) throws Exception {
        String topic = create(codec, 1);
        try (var producer = producer("compression.type", codec, "linger.ms", "50")) {
            produce(producer, topic, 1, 0, 200);
        }
        expect(values(readAll(topic, 200)), numbers(0, 200));
    }

    static void idempotence() throws Exception {
        String topic = create("idempotence", 1);
        try (var producer = producer("enable.idempotence", "true", "batch.size", "100")) {
            produce(producer, topic, 1, 0, 300);
        }
        var found = readAll(topic, 300).stream().map(EveryFeature::text).map(Integer::parseInt).toList();
        for (int number = 0; number < 300; number++) {
            expect(found.get(number), number);
        }
    }

    static void headers() throws Exception {
        String topic = create("headers", 1);
        byte[] everyByte = new byte[256];
        for (int at = 0; at < 256; at++) {
            everyByte[at] = (byte) at;
        }
        var sent = new ProducerRecord<>(topic, 0, bytes("key"), everyByte);
        sent.headers().add("n", everyByte).add("n", bytes("")).add("snow \u2603", bytes("x"));
        try (var producer = producer()) {
            producer.send(sent).get();
            producer.send(new ProducerRecord<>(topic, 0, bytes("gone"), null)).get();
        }
        var found = readAll(topic, 2);
        expect(Arrays.equals(found.get(0).value(), everyByte), true);
        expect(found.get(0).headers(), sent.headers());
        expect(found.get(1).value() == null, true);
    }

    static void timestamps() throws Exception {
        String topic = create("timestamps", 1);
        try (var producer = producer()) {
            produce(producer, topic, 1, 0, 3);
        }
        var found = readAll(topic, 3).stream().map(ConsumerRecord::timestamp).toList();
        expect(found, List.of(START_MS, START_MS + 1000, START_MS + 2000));
    }

    static void seekByTime() throws Exception {
        String topic = create("seek", 1);
        try (var producer = producer(); var consumer = consumer()) {
            produce(producer, topic, 1, 0, 20);
            TopicPartition partition = new TopicPartition(topic, 0);
            var found = consumer.offsetsForTimes(Map.of(partition, START_MS + 11_500)).get(partition);
            expect(found.offset(), 12L);
            expect(consumer.offsetsForTimes(Map.of(partition, START_MS + 20_000)).get(partition) == null, true);
            consumer.assign(List.of(partition));
            consumer.seek(partition, found.offset());
            expect(text(read(8, List.of(consumer)).get(0)), "12");
        }
    }

    static void group(String name, Object... more) throws Exception {
        String topic = create(name, PARTITIONS);
        List<Object> all = new ArrayList<>(List.of("group.id", topic));
        Collections.addAll(all, more);
        try (var producer = producer(); var one = consumer(all.toArray()); var two = consumer(all.toArray())) {
            one.subscribe(List.of(topic));
            produce(producer, topic, PARTITIONS, 0, 40);
            expect(values(read(40, List.of(one))), numbers(0, 40));
            one.commitSync();
            two.subscribe(List.of(topic));
            eventually(() -> shares(one, two).equals(List.of(2, 2)), "two shares");
            Set<TopicPartition> shared = new HashSet<>(one.assignment());
            expect(shared.addAll(two.assignment()) && shared.size() == PARTITIONS, true);
            produce(producer, topic, PARTITIONS, 40, 40);
            expect(values(read(40, List.of(one, two))), numbers(40, 40));
            one.commitSync();
            two.commitSync();
            two.close();
            eventually(() -> shares(one).equals(List.of(PARTITIONS)), "all partitions");
            produce(producer, topic, PARTITIONS, 80, 40);
            expect(values(read(40, List.of(one))), numbers(80, 40));
        }
    }

    static Set<String> values(List<ConsumerRecord<byte[], byte[]>> records) {
        Set<String> values = new HashSet<>(records.stream().map(EveryFeature::text).toList());
        expect(values.size(), records.size());
        return values;
    }

    @SafeVarargs
    static List<Integer> shares(KafkaConsumer<byte[], byte[]>... members) {
        for (var each : members) {
            expect(each.poll(POLL).count(), 0);
        }
        return Arrays.stream(members).map(each -> each.assignment().size()).toList();
    }

    static void resume() throws Exception {
        String topic = create("resume", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var producer = producer(); var before = consumer("group.id", topic)) {
            produce(producer, topic, 1, 0, 10);
            before.assign(List.of(partition));
            before.commitSync(Map.of(partition, new OffsetAndMetadata(7, "seven")));
        }
        try (var after = consumer("group.id", topic)) {
            expect(after.committed(Set.of(partition)).get(partition).metadata(), "seven");
            after.subscribe(List.of(topic));
            expect(values(read(3, List.of(after))), numbers(7, 3));
        }
    }

    static void transactions() throws Exception {
        String topic = create("transactions", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        String[] settings = {"group.id", topic, "isolation.level", "read_committed"};
        try (var first = producer("transactional.id", topic); var second = producer("transactional.id", topic);
                var reader = consumer((Object[]) settings)) {
            first.initTransactions();
            first.beginTransaction();
            produce(first, topic, 1, 0, 10);
            first.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(5)), reader.groupMetadata());
            first.commitTransaction();
            first.beginTransaction();
            produce(first, topic, 1, 10, 5);
            first.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(6)), reader.groupMetadata());
            first.abortTransaction();
            first.beginTransaction();
            produce(first, topic, 1, 15, 5);
            second.initTransactions();
            try {
                first.commitTransaction();
                throw new IllegalStateException("the first instance was not fenced");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                second.beginTransaction();
            }
            produce(second, topic, 1, 20, 5);
            second.commitTransaction();
            expect(reader.committed(Set.of(partition)).get(partition).offset(), 5L);
            reader.assign(List.of(partition));
            reader.seek(partition, 0);
            Set<String> committed = numbers(0, 10);
            committed.addAll(numbers(20, 5));
            expect(values(read(15, List.of(reader))), committed);
        }
    }

    // -- who it is ------------------------------------------------------------------------------------------------

    static void write(String feature, Object... security) throws Exception {
        try (var producer = producer(security)) {
            producer.send(new ProducerRecord<>(prefix + "-" + feature, 0, null, bytes("v"))).get();
        }
    }

    static <E extends Throwable> void expectRefusal(Class<E> why, Feature attempt) throws Exception {
        try {
            attempt.run();
        } catch (ExecutionException refused) {
            if (why.isInstance(refused.getCause())) {
                return;
            }
            throw refused;
        }
        throw new IllegalStateException("it was let in");
    }

    static String given(String name) {
        return System.getenv("SECURE_" + name);
    }

    static Map<String, Object> secured(String servers, String protocol, Object... more) {
        Map<String, Object> settings = settings(more);
        settings.put("bootstrap.servers", given(servers));
        settings.put("security.protocol", protocol);
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", given("AUTHORITY"));
        return settings;
    }

    static Object[] listed(Map<String, Object> settings) {
        return settings.entrySet().stream().flatMap(each -> Stream.of(each.getKey(), each.getValue())).toArray();
    }

    static void tls() throws Exception {
        var without = secured("TLS", "SSL");
        expectRefusal(SslAuthenticationException.class, () -> write("TLS", listed(without)));
        write("TLS", listed(certified("TLS", "CERTIFICATE")));
        var distrustful = certified("TLS", "CERTIFICATE");
        distrustful.put("ssl.truststore.location", given("FOREIGN_AUTHORITY"));
        var wrong = List.of(
                certified("TLS", "EXPIRED"),
                certified("TLS", "FOREIGN"),
                certified("ELSEWHERE", "CERTIFICATE"),
                distrustful);
        for (var each : wrong) {
            expectRefusal(SslAuthenticationException.class, () -> write("TLS", listed(each)));
        }
    }

    static Map<String, Object> certified(String servers, String certificate) {
        return secured(servers, "SSL", "ssl.keystore.type", "PEM", "ssl.keystore.location", given(certificate));
    }

    static void login(String mechanism, String right, String wrong) throws Exception {
        for (var at : Map.of("SASL", "SASL_SSL", "PLAIN_SASL", "SASL_PLAINTEXT").entrySet()) {
            var how = secured(at.getKey(), at.getValue(), "sasl.mechanism", mechanism, "sasl.jaas.config", right);
            write(mechanism, listed(how));
            how.put("sasl.jaas.config", wrong);
            expectRefusal(SaslAuthenticationException.class, () -> write(mechanism, listed(how)));
        }
    }

    static void password(String mechanism, String module) throws Exception {
        String form = "org.apache.kafka.common.security." + module + " required username=\"%s\" password=\"%s\";";
        String right = form.formatted(given("USER"), given("PASSWORD"));
        login(mechanism, right, form.formatted(given("USER"), "wrong"));
    }

    static void token() throws Exception {
        String form = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
                + " unsecuredLoginStringClaim_sub=\"%s\" unsecuredLoginNumberClaim_nbf=\"%s\";";
        String right = form.formatted(given("USER"), "0");
        login("OAUTHBEARER", right, form.formatted(given("USER"), "4000000000"));
    }

    // -- the report ----------------------------------------------------------------------------------------------

    static void tell(String feature, Callable<?> attempt) {
        String outcome = "ok";
        try {
            attempt.call();
        } catch (Throwable error) {
            outcome = error.toString().replaceAll("[^ -~]|[\"\\\\]", " ");
        }
        System.out.printf("{\"feature\": \"%s\", \"outcome\": \"%s\"}%n", feature, outcome);
    }

    interface Feature {
        void run() throws Exception;
    }

    static Callable<?> of(Feature feature) {
        return () -> {
            feature.run();
            return null;
        };
    }

    public static void main(String[] arguments) {
        servers = arguments[0];
        prefix = arguments[1];
        admin = Admin.create(settings());
        System.out.printf("{\"version\": \"%s\"}%n", AppInfoParser.getVersion());
        tell("topics", of(EveryFeature::topics));
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            tell(codec, of(() -> compression(codec)));
        }
        tell("idempotence", of(EveryFeature::idempotence));
        tell("headers", of(EveryFeature::headers));
        tell("timestamps", of(EveryFeature::timestamps));
        tell("seek by time", of(EveryFeature::seekByTime));
        tell("groups", of(() -> group("groups", "heartbeat.interval.ms", "200", "session.timeout.ms", "6000")));
        tell("consumer protocol", of(() -> group("consumer", "group.protocol", "consumer")));
        tell("resume", of(EveryFeature::resume));
        tell("transactions", of(EveryFeature::transactions));
        tell("TLS", of(EveryFeature::tls));
        tell("PLAIN", of(() -> password("PLAIN", "plain.PlainLoginModule")));
        for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-512")) {
            tell(mechanism, of(() -> password(mechanism, "scram.ScramLoginModule")));
        }
        tell("OAUTHBEARER", of(EveryFeature::token));
        admin.close();
    }
}
