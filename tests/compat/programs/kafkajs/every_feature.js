// Tries every feature of kafkajs: node every_feature.js SERVERS PREFIX. A line of JSON tells of each.

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const LZ4Codec = require("@2l/kafkajs-lz4");
const zstd = require("@bokuweb/zstd-wasm");
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");

const START_MS = 1_700_000_000_000;
const PARTITIONS = 4;
const [servers, prefix] = process.argv.slice(2);

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = new LZ4Codec().codec;
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async ({ buffer }) => Buffer.from(zstd.compress(buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});
const kafka = new Kafka({ clientId: "tester", brokers: servers.split(","), logLevel: logLevel.NOTHING });
const admin = kafka.admin();

// -- what the features share --------------------------------------------------------------------------------------

async function eventually(condition, what) {
  const end = Date.now() + 60_000;
  while (!(await condition())) {
    assert(Date.now() < end, `waited in vain for ${what}`);
    await sleep(20);
  }
}

async function create(name, numPartitions = 1) {
  const topic = `${prefix}-${name}`;
  const topics = [{ topic, numPartitions, replicationFactor: 3 }];
  assert(await admin.createTopics({ topics }), `${topic} was there already`);
  return topic;
}

async function withProducer(settings, act) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await act(producer);
  } finally {
    await producer.disconnect();
  }
}

function numbers(first, count) {
  return Array.from({ length: count }, (_, at) => first + at);
}

function messages(first, count, partitions = 1) {
  return numbers(first, count).map((number) => ({
    value: `${number}`,
    partition: number % partitions,
    timestamp: `${START_MS + 1000 * number}`,
  }));
}

// A member of a group: what it read, and its share.
class Member {
  constructor(groupId, topic, settings = {}) {
    const patience = { heartbeatInterval: 200, sessionTimeout: 6000, maxWaitTimeInMs: 100 };
    this.consumer = kafka.consumer({ groupId, ...patience, ...settings });
    this.topic = topic;
    this.found = [];
    this.share = [];
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.share = payload.memberAssignment[topic] ?? [];
    });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true });
    await this.consumer.run({ eachMessage: async ({ message }) => void this.found.push(message) });
    return this;
  }

  stop() {
    return this.consumer.disconnect();
  }
}

// So many records, as they come.
async function read(count, ...members) {
  await eventually(() => members.reduce((sum, each) => sum + each.found.length, 0) >= count, `${count} records`);
  return members.flatMap((each) => each.found.splice(0));
}

async function readAll(topic, count, settings = {}) {
  const member = await new Member(`reader-of-${topic}`, topic, settings).start();
  try {
    return await read(count, member);
  } finally {
    await member.stop();
  }
}

function values(records) {
  return records.map((record) => Number(record.value.toString())).sort((one, other) => one - other);
}

// -- the features -------------------------------------------------------------------------------------------------

async function topics() {
  const topic = await create("topics", 3);
  await eventually(async () => (await admin.listTopics()).includes(topic), "the topic");
  const described = await admin.fetchTopicMetadata({ topics: [topic] });
  assert.deepEqual(described.topics[0].partitions.map((each) => each.replicas.length), [3, 3, 3]);
  assert.equal(await admin.createTopics({ topics: [{ topic }] }), false);
  await admin.deleteTopics({ topics: [topic] });
  await eventually(async () => !(await admin.listTopics()).includes(topic), "the end of the topic");
}

function compressed(name, compression) {
  return async () => {
    const topic = await create(name);
    await withProducer({}, (producer) => producer.send({ topic, compression, messages: messages(0, 200) }));
    assert.deepEqual(values(await readAll(topic, 200)), numbers(0, 200));
  };
}

async function idempotence() {
  const topic = await create("idempotence");
  await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
    for (const first of numbers(0, 30)) {
      await producer.send({ topic, messages: messages(10 * first, 10) });
    }
  });
  const found = await readAll(topic, 300);
  assert.deepEqual(found.map((record) => Number(record.value.toString())), numbers(0, 300));
}

async function headers() {
  const topic = await create("headers");
  const everyByte = Buffer.from(numbers(0, 256));
  const sent = { n: [everyByte, ""], "snow \u2603": "x" };
  await withProducer({}, (producer) =>
    producer.send({
      topic,
      messages: [
        { key: "key", value: everyByte, headers: sent },
        { key: "gone", value: null },
      ],
    }),
  );
  const [first, second] = await readAll(topic, 2);
  assert.deepEqual(first.value, everyByte);
  assert.deepEqual(first.headers.n, [everyByte, Buffer.from("")]);
  assert.equal(first.headers["snow \u2603"].toString(), "x");
  assert.equal(second.value, null);
}

async function timestamps() {
  const topic = await create("timestamps");
  await withProducer({}, (producer) => producer.send({ topic, messages: messages(0, 3) }));
  const found = (await readAll(topic, 3)).map((record) => Number(record.timestamp));
  assert.deepEqual(found, [START_MS, START_MS + 1000, START_MS + 2000]);
}

async function seekByTime() {
  const topic = await create("seek");
  await withProducer({}, (producer) => producer.send({ topic, messages: messages(0, 20) }));
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, START_MS + 11_500);
  assert.deepEqual(found, [{ partition: 0, offset: "12" }]);
  const member = new Member(`reader-of-${topic}`, topic);
  await member.start();
  member.consumer.seek({ topic, partition: 0, offset: "12" });
  try {
    // What it read before it was told where to begin comes first.
    const sought = () => member.found.slice(member.found.findLastIndex((record) => record.offset === "12"));
    await eventually(() => sought().length >= 8, "the records from there on");
    assert.deepEqual(values(sought()), numbers(12, 8));
  } finally {
    await member.stop();
  }
}

async function groups() {
  const topic = await create("groups", PARTITIONS);
  const one = await new Member(topic, topic).start();
  const two = new Member(topic, topic);
  try {
    await withProducer({}, async (producer) => {
      const send = (first) => producer.send({ topic, messages: messages(first, 40, PARTITIONS) });
      await send(0);
      assert.deepEqual(values(await read(40, one)), numbers(0, 40));
      await two.start();
      await eventually(() => one.share.length === 2 && two.share.length === 2, "two shares");
      assert.deepEqual([...one.share, ...two.share].sort(), numbers(0, PARTITIONS));
      await send(40);
      assert.deepEqual(values(await read(40, one, two)), numbers(40, 40));
      await two.stop();
      await eventually(() => one.share.length === PARTITIONS, "all partitions");
      await send(80);
      assert.deepEqual(values(await read(40, one)), numbers(80, 40));
    });
  } finally {
    await one.stop();
  }
}

async function resume() {
  const topic = await create("resume");
  await withProducer({}, (producer) => producer.send({ topic, messages: messages(0, 10) }));
  const partitions = [{ partition: 0, offset: "7" }];
  await admin.setOffsets({ groupId: topic, topic, partitions });
  const member = await new Member(topic, topic).start();
  assert.deepEqual(values(await read(3, member)), numbers(7, 3));
  await member.consumer.commitOffsets([{ topic, partition: 0, offset: "9" }]);
  await member.stop();
  const again = await new Member(topic, topic, { readUncommitted: true }).start();
  assert.deepEqual(values(await read(1, again)), [9]);
  await again.stop();
}

async function transactions() {
  const topic = await create("transactions");
  const settings = { transactionalId: topic, idempotent: true, maxInFlightRequests: 1 };
  const fenced = { type: /PRODUCER_FENCED|INVALID_PRODUCER_EPOCH/ };
  const book = async (producer, first, count, offset) => {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: messages(first, count) });
    const topics = [{ topic, partitions: [{ partition: 0, offset }] }];
    await transaction.sendOffsets({ consumerGroupId: topic, topics });
    return transaction;
  };
  await withProducer(settings, async (first) => {
    await (await book(first, 0, 10, "5")).commit();
    await (await book(first, 10, 5, "6")).abort();
    const open = await book(first, 15, 5, "7");
    await withProducer(settings, async (second) => {
      const successor = await book(second, 20, 5, "8");
      await assert.rejects(open.commit(), fenced);
      await successor.commit();
    });
  });
  const committed = async () => (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset;
  await eventually(async () => (await committed()) === "8", "the offset of the last transaction");
  const found = await readAll(topic, 15, { readUncommitted: false });
  assert.deepEqual(values(found), [...numbers(0, 10), ...numbers(20, 5)]);
}

// -- who it is ----------------------------------------------------------------------------------------------------

const given = (name) => process.env[`SECURE_${name}`];
const fileOf = (name) => readFileSync(given(name), "utf8");

async function write(feature, security) {
  const settings = { retry: { retries: 0 }, logLevel: logLevel.NOTHING, ...security };
  const producer = new Kafka({ clientId: "tester", ...settings }).producer({ retry: { retries: 5 } });
  await producer.connect();
  try {
    await producer.send({ topic: `${prefix}-${feature}`, messages: [{ value: "v" }] });
  } finally {
    await producer.disconnect();
  }
}

async function tls() {
  const brokers = given("TLS").split(",");
  const without = { ca: fileOf("AUTHORITY") };
  await assert.rejects(write("TLS", { brokers, ssl: without }), /certificate required/);
  const own = (name) => ({ ...without, cert: fileOf(name), key: fileOf(name) }); // with its key
  const ssl = own("CERTIFICATE");
  await write("TLS", { brokers, ssl });
  await assert.rejects(write("TLS", { brokers, ssl: own("EXPIRED") }), /alert certificate expired/);
  await assert.rejects(write("TLS", { brokers, ssl: own("FOREIGN") }), /alert unknown ca/);
  const distrustful = { ...ssl, ca: fileOf("FOREIGN_AUTHORITY") };
  await assert.rejects(write("TLS", { brokers, ssl: distrustful }), /in certificate chain|unable to verify/);
  await assert.rejects(write("TLS", { brokers: given("ELSEWHERE").split(","), ssl }), /does not match certificate/);
}

function login(mechanism, right, wrong, why) {
  const within = { brokers: given("SASL").split(","), ssl: { ca: fileOf("AUTHORITY") } };
  const without = { brokers: given("PLAIN_SASL").split(",") };
  return async () => {
    for (const to of [within, without]) {
      await write(mechanism, { ...to, sasl: { mechanism, ...right } });
      await assert.rejects(write(mechanism, { ...to, sasl: { mechanism, ...wrong } }), why);
    }
  };
}

function password(mechanism) {
  const username = given("USER");
  return login(mechanism, { username, password: given("PASSWORD") }, { username, password: "wrong" }, /Authentication/);
}

function token() {
  const provider = (value) => ({ oauthBearerProvider: async () => ({ value }) });
  // It takes the answer that says what is wrong with a token for a welcome.
  return login("OAUTHBEARER", provider(given("TOKEN")), provider("no.such.token"), /Closed connection/);
}

// -- the report ---------------------------------------------------------------------------------------------------

async function tell(feature, attempt) {
  let outcome = "ok";
  try {
    await attempt();
  } catch (error) {
    outcome = String(error.stack);
  }
  console.log(JSON.stringify({ feature, outcome }));
}

async function main() {
  console.log(JSON.stringify({ version: require("kafkajs/package.json").version }));
  await zstd.init();
  await admin.connect();
  await tell("topics", topics);
  await tell("gzip", compressed("gzip", CompressionTypes.GZIP));
  await tell("snappy", compressed("snappy", CompressionTypes.Snappy));
  await tell("lz4", compressed("lz4", CompressionTypes.LZ4));
  await tell("zstd", compressed("zstd", CompressionTypes.ZSTD));
  await tell("idempotence", idempotence);
  await tell("headers", headers);
  await tell("timestamps", timestamps);
  await tell("seek by time", seekByTime);
  await tell("groups", groups);
  await tell("resume", resume);
  await tell("transactions", transactions);
  await tell("TLS", tls);
  await tell("PLAIN", password("PLAIN"));
  await tell("SCRAM-SHA-256", password("SCRAM-SHA-256"));
  await tell("SCRAM-SHA-512", password("SCRAM-SHA-512"));
  await tell("OAUTHBEARER", token());
  await admin.disconnect();
}

main();
