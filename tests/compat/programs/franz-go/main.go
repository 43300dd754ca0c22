// Tries every feature of franz-go: everyfeature SERVERS PREFIX. A line of JSON tells of each.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	startMs    = 1_700_000_000_000
	partitions = 4
)

var (
	servers = strings.Split(os.Args[1], ",")
	prefix  = os.Args[2]
	admin   = kadm.NewClient(client())
	patient = context.Background()
)

// -- what the features share: they panic, and tell catches it ------------------------------------------------------

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(found, expected any) {
	if fmt.Sprint(found) != fmt.Sprint(expected) {
		panic(fmt.Errorf("found %v, expected %v", found, expected))
	}
}

func eventually(condition func() bool, what string) {
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			panic(errors.New("waited in vain for " + what))
		}
	}
}

func client(more ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append(more, kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...))
}

func create(name string, partitions int32) string {
	topic := prefix + "-" + name
	must(admin.CreateTopic(patient, partitions, 3, nil, topic))
	return topic
}

func records(topic string, partitions, first, count int) (made []*kgo.Record) {
	for number := first; number < first+count; number++ {
		made = append(made, &kgo.Record{
			Topic:     topic,
			Partition: int32(number % partitions),
			Value:     []byte(strconv.Itoa(number)),
			Timestamp: time.UnixMilli(startMs + 1000*int64(number)),
		})
	}
	return made
}

func produce(made []*kgo.Record, more ...kgo.Opt) {
	producer := client(more...)
	defer producer.Close()
	check(producer.ProduceSync(patient, made...).FirstErr())
}

func numbers(first, count int) (found []int) {
	for number := first; number < first+count; number++ {
		found = append(found, number)
	}
	return found
}

func values(records []*kgo.Record) (found []int) {
	for _, record := range records {
		found = append(found, must(strconv.Atoi(string(record.Value))))
	}
	slices.Sort(found)
	return found
}

type poller interface {
	PollFetches(context.Context) kgo.Fetches
}

func poll(consumer poller) []*kgo.Record {
	short, cancel := context.WithTimeout(patient, 50*time.Millisecond)
	defer cancel()
	fetches := consumer.PollFetches(short)
	for _, each := range fetches.Errors() {
		if !errors.Is(each.Err, context.DeadlineExceeded) {
			panic(each.Err)
		}
	}
	return fetches.Records()
}

func read(count int, consumers ...poller) (found []*kgo.Record) {
	eventually(func() bool {
		for _, each := range consumers {
			found = append(found, poll(each)...)
		}
		return len(found) >= count
	}, fmt.Sprintf("%d records", count))
	return found
}

func readFrom(topic string, offset int64, count int, more ...kgo.Opt) []*kgo.Record {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}
	consumer := client(append(more, kgo.ConsumePartitions(from))...)
	defer consumer.Close()
	return read(count, consumer)
}

// -- the features --------------------------------------------------------------------------------------------------

func topics() {
	topic := create("topics", 3)
	names := func() []string { return must(admin.ListTopics(patient)).Names() }
	eventually(func() bool { return slices.Contains(names(), topic) }, "the topic")
	for _, each := range must(admin.ListTopics(patient, topic))[topic].Partitions.Sorted() {
		expect(len(each.Replicas), 3)
	}
	_, err := admin.CreateTopic(patient, 3, 3, nil, topic)
	expect(errors.Is(err, kerr.TopicAlreadyExists), true)
	must(admin.DeleteTopic(patient, topic))
	eventually(func() bool { return !slices.Contains(names(), topic) }, "the end of the topic")
}

func compression(name string, codec kgo.CompressionCodec) func() {
	return func() {
		topic := create(name, 1)
		made := records(topic, 1, 0, 200)
		for _, record := range made {
			record.Key = bytes.Repeat([]byte("key "), 50) // what does not get smaller is sent as it is
		}
		produce(made, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(50*time.Millisecond))
		expect(values(readFrom(topic, 0, 200)), numbers(0, 200))
	}
}

func idempotence() {
	topic := create("idempotence", 1)
	produce(records(topic, 1, 0, 300), kgo.MaxBufferedRecords(10))
	for at, record := range readFrom(topic, 0, 300) {
		expect(string(record.Value), at)
	}
}

func headers() {
	topic := create("headers", 1)
	everyByte := make([]byte, 256)
	for at := range everyByte {
		everyByte[at] = byte(at)
	}
	sent := []kgo.RecordHeader{{Key: "n", Value: everyByte}, {Key: "n", Value: []byte{}}, {Key: "snow \u2603", Value: []byte("x")}}
	produce([]*kgo.Record{
		{Topic: topic, Key: []byte("key"), Value: everyByte, Headers: sent},
		{Topic: topic, Key: []byte("gone")},
	})
	found := readFrom(topic, 0, 2)
	expect(bytes.Equal(found[0].Value, everyByte), true)
	expect(found[0].Headers, sent)
	expect(found[1].Value == nil, true)
}

func timestamps() {
	topic := create("timestamps", 1)
	produce(records(topic, 1, 0, 3))
	for at, record := range readFrom(topic, 0, 3) {
		expect(record.Timestamp.UnixMilli(), startMs+1000*at)
	}
}

func seekByTime() {
	topic := create("seek", 1)
	produce(records(topic, 1, 0, 20))
	found, _ := must(admin.ListOffsetsAfterMilli(patient, startMs+11_500, topic)).Lookup(topic, 0)
	expect(found.Offset, 12)
	expect(values(readFrom(topic, found.Offset, 8)), numbers(12, 8))
}

// A member of a group, and how many partitions it has.
type member struct {
	*kgo.Client
	lock  sync.Mutex
	share int
}

func join(group, topic string, more ...kgo.Opt) *member {
	one := &member{}
	change := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			one.lock.Lock()
			defer one.lock.Unlock()
			one.share += sign * len(changed[topic])
		}
	}
	one.Client = client(append(more,
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)))...)
	return one
}

func (one *member) has(count int) bool {
	expect(len(poll(one)), 0)
	one.lock.Lock()
	defer one.lock.Unlock()
	return one.share == count
}

func group(name string, more ...kgo.Opt) func() {
	return func() {
		topic := create(name, partitions)
		produce(records(topic, partitions, 0, 40))
		one := join(topic, topic, more...)
		defer one.Close()
		expect(values(read(40, one)), numbers(0, 40))
		check(one.CommitUncommittedOffsets(patient))
		two := join(topic, topic, more...)
		eventually(func() bool { return one.has(2) && two.has(2) }, "two shares")
		produce(records(topic, partitions, 40, 40))
		expect(values(read(40, one, two)), numbers(40, 40))
		check(one.CommitUncommittedOffsets(patient))
		check(two.CommitUncommittedOffsets(patient))
		two.Close()
		eventually(func() bool { return one.has(partitions) }, "all partitions")
		produce(records(topic, partitions, 80, 40))
		expect(values(read(40, one)), numbers(80, 40))
	}
}

func consumerProtocol() {
	group("consumer", kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))()
	described := must(admin.DescribeConsumerGroups(patient, prefix+"-consumer"))
	check(described[prefix+"-consumer"].Err) // it did not fall back to the classic protocol
}

func resume() {
	topic := create("resume", 1)
	produce(records(topic, 1, 0, 10))
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7, LeaderEpoch: -1, Metadata: "seven"})
	check(admin.CommitAllOffsets(patient, topic, offsets))
	found, _ := must(admin.FetchOffsets(patient, topic)).Lookup(topic, 0)
	expect(found.Metadata, "seven")
	after := join(topic, topic)
	defer after.Close()
	expect(values(read(3, after)), numbers(7, 3))
}

func transactions() {
	input, output := create("transactions", 1), create("transactions-copy", 1)
	produce(records(input, 1, 0, 10))
	copier := must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers...), kgo.TransactionalID(input), kgo.ConsumerGroup(input), kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	defer copier.Close()
	read(10, copier)
	check(copier.Begin())
	check(copier.ProduceSync(patient, records(output, 1, 0, 10)...).FirstErr())
	expect(must(copier.End(patient, kgo.TryCommit)), true)
	eventually(func() bool {
		committed, _ := must(admin.FetchOffsets(patient, input)).Lookup(input, 0)
		return committed.At == 10
	}, "the offset that was committed with the transaction")

	first, second := client(kgo.TransactionalID(output)), client(kgo.TransactionalID(output))
	defer first.Close()
	defer second.Close()
	book := func(by *kgo.Client, number, count int) {
		check(by.BeginTransaction())
		check(by.ProduceSync(patient, records(output, 1, number, count)...).FirstErr())
	}
	book(first, 10, 5)
	check(first.EndTransaction(patient, kgo.TryAbort))
	book(first, 15, 5)
	book(second, 20, 5)
	err := first.EndTransaction(patient, kgo.TryCommit)
	expect(errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), true)
	check(second.EndTransaction(patient, kgo.TryCommit))
	found := readFrom(output, 0, 15, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	expect(values(found), append(numbers(0, 10), numbers(20, 5)...))
}

// -- who it is ----------------------------------------------------------------------------------------------------

func given(name string) string {
	return os.Getenv("SECURE_" + name)
}

func trusting() *tls.Config {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(must(os.ReadFile(given("AUTHORITY"))))
	return &tls.Config{RootCAs: trusted}
}

func write(feature, servers string, security ...kgo.Opt) error {
	quick := []kgo.Opt{kgo.SeedBrokers(given(servers)), kgo.AllowAutoTopicCreation(), kgo.RetryTimeout(10 * time.Second)}
	producer := must(kgo.NewClient(append(quick, security...)...))
	defer producer.Close()
	if err := producer.Ping(patient); err != nil {
		return err
	}
	return producer.ProduceSync(patient, &kgo.Record{Topic: prefix + "-" + feature, Value: []byte("v")}).FirstErr()
}

func tlsFeature() {
	without := write("TLS", "TLS", kgo.DialTLSConfig(trusting()))
	if without == nil || !strings.Contains(without.Error(), "certificate required") {
		panic(fmt.Errorf("without a certificate: %v", without))
	}
	own := trusting()
	own.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(given("CERTIFICATE"), given("CERTIFICATE")))}
	check(write("TLS", "TLS", kgo.DialTLSConfig(own)))
}

func login(mechanism func(secret string) sasl.Mechanism, right, refused string) func() {
	return func() {
		within := func(how sasl.Mechanism) error {
			return write(how.Name(), "SASL", kgo.DialTLSConfig(trusting()), kgo.SASL(how))
		}
		without := func(how sasl.Mechanism) error {
			return write(how.Name(), "PLAIN_SASL", kgo.SASL(how))
		}
		for _, in := range []func(sasl.Mechanism) error{within, without} {
			check(in(mechanism(right)))
			if wrong := in(mechanism("wrong")); wrong == nil || !strings.Contains(wrong.Error(), refused) {
				panic(fmt.Errorf("who should be refused: %v", wrong))
			}
		}
	}
}

// -- the report ---------------------------------------------------------------------------------------------------

func say(line map[string]string) {
	fmt.Println(string(must(json.Marshal(line))))
}

func tell(feature string, attempt func()) {
	outcome := "ok"
	defer func() {
		if failure := recover(); failure != nil {
			outcome = fmt.Sprint(failure)
		}
		say(map[string]string{"feature": feature, "outcome": outcome})
	}()
	attempt()
}

func version() string {
	built, _ := debug.ReadBuildInfo()
	for _, module := range built.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func main() {
	say(map[string]string{"version": version()})
	tell("topics", topics)
	tell("gzip", compression("gzip", kgo.GzipCompression()))
	tell("snappy", compression("snappy", kgo.SnappyCompression()))
	tell("lz4", compression("lz4", kgo.Lz4Compression()))
	tell("zstd", compression("zstd", kgo.ZstdCompression()))
	tell("idempotence", idempotence)
	tell("headers", headers)
	tell("timestamps", timestamps)
	tell("seek by time", seekByTime)
	tell("groups", group("groups"))
	tell("consumer protocol", consumerProtocol)
	tell("resume", resume)
	tell("transactions", transactions)
	tell("TLS", tlsFeature)
	user := given("USER")
	tell("PLAIN", login(func(password string) sasl.Mechanism {
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}, given("PASSWORD"), "SASL_AUTHENTICATION_FAILED"))
	tell("SCRAM-SHA-256", login(func(password string) sasl.Mechanism {
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	}, given("PASSWORD"), "SASL_AUTHENTICATION_FAILED"))
	tell("SCRAM-SHA-512", login(func(password string) sasl.Mechanism {
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}, given("PASSWORD"), "SASL_AUTHENTICATION_FAILED"))
	tell("OAUTHBEARER", login(func(token string) sasl.Mechanism {
		return oauth.Auth{Token: token}.AsMechanism()
	}, given("TOKEN"), "unexpected data in oauth response")) // which says what is wrong with it
}
