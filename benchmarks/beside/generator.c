/* The load of the benchmarks beside other brokers, by librdkafka and without an interpreter in the way.
 *
 *   generator produce TOPIC PARTITIONS COUNT SIZE RATE DEPTH WARM  [PROPERTY=VALUE ...]
 *   generator consume TOPIC PARTITIONS COUNT CONSUMERS             [PROPERTY=VALUE ...]
 *   generator through TOPIC PARTITIONS COUNT SIZE RATE DEPTH WARM  [PROPERTY=VALUE ...]
 *   generator mock BROKERS                                         [PROPERTY=VALUE ...]
 *
 * produce: COUNT records of SIZE bytes to the partitions by turns, RATE a second (0: as fast as they are taken), at most
 *          DEPTH without an answer (0: as many as the queue takes). The first WARM are sent before and count for nothing.
 * consume: COUNT records from the beginning of all partitions, by each of so many CONSUMERS; from the first that comes,
 *          for a client takes half a second to find out who leads.
 * through: the same as produce, and a consumer beside it: from each record's sending to its arrival there.
 * They say on one line of JSON what they saw.
 * mock:    librdkafka's mock cluster; it says its bootstrap servers, and ends with its standard input.
 */
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BILLION 1000000000LL
#define PIECE (4 << 20)
#define PIECES 64
#define VALUES 64 /* that many different ones, so that a batch cannot be compressed to one of them */

static long wanted, warm, delivered, failed, arrived;
static uint32_t *took_us;
static int64_t first_ns;
static int is_counting, has_depth, is_stamped;
static volatile int is_ended;
static sem_t free_places;
static const char *first_error;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * BILLION + now.tv_nsec;
}

static void end(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        failed++;
        first_error = rd_kafka_err2str(message->err);
    } else if (is_counting && !is_stamped && delivered < wanted) {
        took_us[delivered] = (uint32_t)((now_ns() - (int64_t)(intptr_t)message->_private) / 1000);
    }
    __atomic_add_fetch(&delivered, 1, __ATOMIC_SEQ_CST);
    if (has_depth) sem_post(&free_places);
}

static void *serve(void *client) {
    while (!is_ended) rd_kafka_poll(client, 100);
    return NULL;
}

static int by_size(const void *one, const void *other) {
    uint32_t left = *(const uint32_t *)one, right = *(const uint32_t *)other;
    return (left > right) - (left < right);
}

static rd_kafka_t *client_of(rd_kafka_type_t type, char **properties, int count) {
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (int n = 0; n < count; n++) {
        char *equals = strchr(properties[n], '=');
        if (!equals) end(properties[n], "is no PROPERTY=VALUE");
        *equals = 0;
        if (rd_kafka_conf_set(conf, properties[n], equals + 1, why, sizeof why)) end(properties[n], why);
        *equals = '='; /* the next client has them, too */
    }
    if (type == RD_KAFKA_CONSUMER) rd_kafka_conf_set(conf, "group.id", "none", why, sizeof why);
    if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    if (!client) end("client", why);
    return client;
}

/* Half of a value is random and half is text, so that codecs find something, as they do in what people send. */
static char *values_of(size_t size) {
    char *values = malloc(VALUES * size);
    srand(1);
    for (size_t at = 0; at < VALUES * size; at++)
        values[at] = at % size < size / 2 ? (char)rand() : "the quick brown fox jumps over the lazy dog "[at % 44];
    return values;
}

static void wait_for(long *counter, long count) {
    while (__atomic_load_n(counter, __ATOMIC_SEQ_CST) < count) {
        struct timespec pause = {0, 200000};
        nanosleep(&pause, NULL);
    }
}

static int64_t send_all(rd_kafka_topic_t *topic, int partitions, long count, char *values, size_t size,
                        long rate) {
    int64_t began = now_ns();
    delivered = 0;
    for (long n = 0; n < count; n++) {
        if (rate) {
            int64_t due = began + n * BILLION / rate;
            struct timespec at = {due / BILLION, due % BILLION};
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
        }
        if (has_depth)
            while (sem_wait(&free_places)) {}
        char *value = values + n % VALUES * size;
        int64_t sent_ns = now_ns();
        if (is_stamped) memcpy(value, &sent_ns, sizeof sent_ns);
        while (rd_kafka_produce(topic, n % partitions, is_stamped ? RD_KAFKA_MSG_F_COPY : 0, value, size, NULL, 0,
                                (void *)(intptr_t)sent_ns)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                end("produce", rd_kafka_err2str(rd_kafka_last_error()));
            struct timespec pause = {0, 500000};
            nanosleep(&pause, NULL);
        }
    }
    wait_for(&delivered, count);
    return now_ns() - began;
}

struct reading {
    pthread_t thread;
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    int64_t bytes;
};

static struct reading *reading_of(const char *topic, int partitions, int64_t offset, char **properties, int count) {
    struct reading *reading = calloc(1, sizeof *reading);
    reading->client = client_of(RD_KAFKA_CONSUMER, properties, count);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(partitions);
    for (int n = 0; n < partitions; n++) rd_kafka_topic_partition_list_add(all, topic, n)->offset = offset;
    reading->queue = rd_kafka_queue_get_consumer(reading->client);
    rd_kafka_assign(reading->client, all);
    rd_kafka_topic_partition_list_destroy(all);
    return reading;
}

static void end_reading(struct reading *reading) {
    rd_kafka_queue_destroy(reading->queue);
    rd_kafka_consumer_close(reading->client);
    rd_kafka_destroy(reading->client);
    free(reading);
}

/* From the first record on, which is not counted: whoever waits for a thousand gets fewer only after a second. */
static void *read_all(void *opaque) {
    struct reading *reading = opaque;
    rd_kafka_message_t *messages[1000];
    long left = wanted;
    while (left == wanted) {
        rd_kafka_message_t *first = rd_kafka_consumer_poll(reading->client, 100);
        if (!first) continue;
        if (first->err)
            __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
        else
            left--;
        rd_kafka_message_destroy(first);
    }
    int64_t none = 0;
    __atomic_compare_exchange_n(&first_ns, &none, now_ns(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    while (left > 0) {
        size_t most = left < 1000 ? left : 1000;
        ssize_t found = rd_kafka_consume_batch_queue(reading->queue, 1000, messages, most);
        for (ssize_t n = 0; n < found; n++) {
            if (messages[n]->err)
                __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
            else
                left--, reading->bytes += (int64_t)messages[n]->len;
            rd_kafka_message_destroy(messages[n]);
        }
    }
    return NULL;
}

/* Stamped records as they arrive, until all that were sent are there. */
static void *note_arrivals(void *opaque) {
    struct reading *reading = opaque;
    while (arrived < warm + wanted && !is_ended) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->client, 100);
        if (!message) continue;
        int64_t sent_ns;
        if (!message->err && message->len >= sizeof sent_ns) {
            memcpy(&sent_ns, message->payload, sizeof sent_ns);
            if (arrived >= warm) took_us[arrived - warm] = (uint32_t)((now_ns() - sent_ns) / 1000);
            __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static void tell(int64_t took_ns) {
    qsort(took_us, wanted, sizeof *took_us, by_size);
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"us\": [", wanted, failed, took_ns / 1e9);
    for (int permille = 0; permille <= 1000; permille++)
        printf("%s%u", permille ? ", " : "", took_us[(wanted - 1) * permille / 1000]);
    printf("], \"error\": \"%s\"}\n", first_error ? first_error : "");
}

static int produce(char **arguments, char **properties, int count) {
    int partitions = atoi(arguments[1]);
    size_t size = strtoul(arguments[3], NULL, 10);
    long rate = atol(arguments[4]), depth = atol(arguments[5]);
    wanted = atol(arguments[2]), warm = atol(arguments[6]);
    has_depth = depth > 0;
    sem_init(&free_places, 0, depth);
    took_us = calloc(wanted, sizeof *took_us);
    char *values = values_of(size);
    rd_kafka_t *client = client_of(RD_KAFKA_PRODUCER, properties, count);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, arguments[0], NULL);
    pthread_t server;
    pthread_create(&server, NULL, serve, client);
    struct reading *reading = NULL;
    if (is_stamped) {
        reading = reading_of(arguments[0], partitions, RD_KAFKA_OFFSET_BEGINNING, properties, count);
        pthread_create(&reading->thread, NULL, note_arrivals, reading);
    }

    send_all(topic, partitions, warm, values, size, rate);
    printf("warm\n");
    fflush(stdout);
    if (getchar() == EOF) return 1; /* whoever measures has looked at the clocks of the servers */
    is_counting = 1;
    int64_t took_ns = send_all(topic, partitions, wanted, values, size, rate);
    if (is_stamped) wait_for(&arrived, warm + wanted);
    tell(took_ns);
    is_ended = 1;
    pthread_join(server, NULL);
    if (is_stamped) {
        pthread_join(reading->thread, NULL);
        end_reading(reading);
    }
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return 0;
}

/* What is read waits in the queue for its reader, and the faster it comes, the more of it. It is all read in a tenth of a
 * second: to get memory for it from the kernel, page by page, took a third of that. Who reads longer has it already. */
static void have_memory(void) {
    char *pieces[PIECES];
    mallopt(M_ARENA_MAX, 1); /* the others grow by pages, and cannot be filled from here */
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    mallopt(M_MMAP_THRESHOLD, 2 * PIECE);
    for (int n = 0; n < PIECES; n++) {
        pieces[n] = malloc(PIECE);
        if (!pieces[n]) end("memory", "there is none");
        memset(pieces[n], 1, PIECE);
    }
    for (int n = 0; n < PIECES; n++) free(pieces[n]);
}

static int consume(char **arguments, char **properties, int count) {
    int partitions = atoi(arguments[1]), consumers = atoi(arguments[3]);
    struct reading *readings[consumers];
    int64_t bytes = 0;
    have_memory();
    wanted = atol(arguments[2]);
    for (int n = 0; n < consumers; n++) {
        readings[n] = reading_of(arguments[0], partitions, RD_KAFKA_OFFSET_BEGINNING, properties, count);
        pthread_create(&readings[n]->thread, NULL, read_all, readings[n]);
    }
    for (int n = 0; n < consumers; n++) {
        pthread_join(readings[n]->thread, NULL);
        bytes += readings[n]->bytes;
    }
    int64_t took_ns = now_ns() - first_ns;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"bytes\": %lld}\n", wanted * consumers, failed,
           took_ns / 1e9, (long long)bytes);
    for (int n = 0; n < consumers; n++) end_reading(readings[n]);
    return 0;
}

static int mock(char **arguments, char **properties, int count) {
    rd_kafka_t *client = client_of(RD_KAFKA_PRODUCER, properties, count);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, atoi(arguments[0]));
    if (!cluster) end("mock", "no cluster");
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (getchar() != EOF) {}
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(client);
    return 0;
}

int main(int count, char **words) {
    is_stamped = count > 1 && !strcmp(words[1], "through");
    if (count >= 9 && (is_stamped || !strcmp(words[1], "produce"))) return produce(words + 2, words + 9, count - 9);
    if (count >= 6 && !strcmp(words[1], "consume")) return consume(words + 2, words + 6, count - 6);
    if (count >= 3 && !strcmp(words[1], "mock")) return mock(words + 2, words + 3, count - 3);
    end("generator", "see the comment at the top of generator.c");
}
