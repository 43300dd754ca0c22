import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Three members of a group of the newer protocol (KIP-848). Commands come from standard input, one per line. */
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
    }
}
