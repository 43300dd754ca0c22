import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Three members of a group of the newer protocol (KIP-848), and then three that go from the classic protocol to it and
 * back, one by one. Commands come from standard input, one per line.
 */
public class ConsumerGroup {
    static String servers;
    static String group;

    static KafkaConsumer<String, String> consumer(String name, String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("group.protocol", "consumer");
        settings.put("client.id", name);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        for (int at = 0; at < more.length; at += 2) {
            settings.put(more[at], more[at + 1]);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** Reads so many values, each once, and commits. */
    static void read(List<KafkaConsumer<String, String>> members, int count) {
        Set<String> seen = new HashSet<>();
        while (seen.size() < count) {
            for (KafkaConsumer<String, String> member : members) {
                for (var record : member.poll(Duration.ofMillis(50))) {
                    if (!seen.add(record.value())) {
                        throw new IllegalStateException(record.value() + " came twice");
                    }
                }
            }
        }
        members.forEach(KafkaConsumer::commitSync);
    }

    /** Polls until the members have so many partitions each. */
    static void share(List<KafkaConsumer<String, String>> members, int... counts) {
        int[] found;
        do {
            members.forEach(member -> member.poll(Duration.ofMillis(50)));
            found = members.stream().mapToInt(member -> member.assignment().size()).sorted().toArray();
        } while (!Arrays.equals(found, counts));
    }

    /** Members are replaced one by one by those of the other protocol, while records come: each is read once. */
    static void roll(String topic, int partitions, Class<?> assignor) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        Set<String> sent = new HashSet<>();
        Set<String> seen = new HashSet<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) servers));
                var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String protocol : List.of("classic", "consumer", "classic")) {
                for (int place = 0; place < 3; place++) {
                    if (members.size() > place) {
                        members.get(place).close();
                        members.remove(place);
                    }
                    KafkaConsumer<String, String> member = protocol.equals("consumer")
                        ? consumer("place " + place)
                        : consumer("place " + place, "group.protocol", protocol, "heartbeat.interval.ms", "500",
                            "partition.assignment.strategy", assignor.getName());
                    member.subscribe(List.of(topic), new Committer(member));
                    members.add(place, member);
                    int share = partitions / members.size();
                    while (!members.stream().allMatch(each -> each.assignment().size() == share)) {
                        String value = assignor.getSimpleName() + sent.size();
                        producer.send(new ProducerRecord<>(topic, sent.size() % partitions, null, value));
                        sent.add(value);
                        poll(members, seen);
                    }
                }
                GroupType type = admin.describeConsumerGroups(List.of(group)).all().get().get(group).type();
                if (!type.toString().equalsIgnoreCase(protocol)) {
                    throw new IllegalStateException(protocol + " members, and the group is " + type);
                }
            }
            producer.flush();
            while (!seen.containsAll(sent)) {
                poll(members, seen);
            }
        }
        members.forEach(KafkaConsumer::close);
    }

    /** One turn of each member, which commits what it has read. */
    static void poll(List<KafkaConsumer<String, String>> members, Set<String> seen) {
        for (KafkaConsumer<String, String> member : members) {
            var records = member.poll(Duration.ofMillis(50));
            for (var record : records) {
                if (!seen.add(record.value())) {
                    throw new IllegalStateException(record.value() + " came twice");
                }
            }
            if (!records.isEmpty()) {
                commit(member);
            }
        }
    }

    /** During a rebalance of a cooperative classic member, what it goes on with is committed later. */
    static void commit(KafkaConsumer<String, String> member) {
        try {
            member.commitSync();
        } catch (RebalanceInProgressException later) {
            // before it is given up, or with the next records
        }
    }

    /** What was read is committed before its partitions are given up. */
    record Committer(KafkaConsumer<String, String> member) implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit(member);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        String topic = arguments[1];
        group = arguments[2];
        Scanner commands = new Scanner(System.in);
        KafkaConsumer<String, String> one = consumer("one");
        KafkaConsumer<String, String> two = consumer("two");
        KafkaConsumer<String, String> fixed = consumer("fixed", "group.instance.id", "fixed");
        one.subscribe(List.of(topic));
        two.subscribe(new SubscriptionPattern(topic.substring(0, 1) + ".*" + topic.substring(1)));
        fixed.subscribe(List.of(topic));
        List<KafkaConsumer<String, String>> members = List.of(one, two, fixed);
        share(members, 2, 2, 2);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) servers))) {
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            if (described.type() != GroupType.CONSUMER || described.members().size() != 3) {
                throw new IllegalStateException(described.toString());
            }
        }
        System.out.println("shared");
        read(members, Integer.parseInt(commands.nextLine()));
        System.out.println("read");
        read(members, Integer.parseInt(commands.nextLine()));
        fixed.close();
        fixed = consumer("fixed again", "group.instance.id", "fixed");
        fixed.subscribe(List.of(topic));
        members = List.of(one, two, fixed);
        share(members, 2, 2, 2);
        one.close();
        members = List.of(two, fixed);
        share(members, 3, 3);
        try (KafkaConsumer<String, String> wrong = consumer("wrong")) {
            wrong.subscribe(new SubscriptionPattern("a("));
            while (true) {
                wrong.poll(Duration.ofMillis(50));
            }
        } catch (InvalidRegularExpression error) {
            System.out.println("refused");
        }
        read(members, Integer.parseInt(commands.nextLine()));
        members.forEach(KafkaConsumer::close);
        System.out.println("done");
        group = arguments[2] + " rolled";
        roll(topic, 6, CooperativeStickyAssignor.class);
        System.out.println("rolled");
    }
}
