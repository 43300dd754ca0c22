//! Tries every feature of rskafka: every-feature SERVERS PREFIX. A line of JSON tells of each.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

const VERSION: &str = "0.6.0"; // as Cargo.toml pins it
const START_MS: i64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

struct Trial {
    client: Client,
    prefix: String,
}

fn time(number: i64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(START_MS + 1000 * number).unwrap()
}

fn records(first: i64, count: i64) -> Vec<Record> {
    let made = |number: i64| Record {
        key: None,
        value: Some(number.to_string().into_bytes()),
        headers: BTreeMap::new(),
        timestamp: time(number),
    };
    (first..first + count).map(made).collect()
}

fn values(found: &[RecordAndOffset]) -> Vec<i64> {
    let number = |each: &RecordAndOffset| String::from_utf8_lossy(each.record.value.as_ref().unwrap()).parse().unwrap();
    found.iter().map(number).collect()
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("found {found:?}, expected {expected:?}").into())
}

impl Trial {
    async fn create(&self, name: &str) -> Result<PartitionClient, Box<dyn Error>> {
        let topic = format!("{}-{name}", self.prefix);
        self.client.controller_client()?.create_topic(&topic, 1, 3, 60_000).await?;
        Ok(self.client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?)
    }

    async fn is_listed(&self, topic: &str, expected: bool) -> Outcome {
        let end = Instant::now() + PATIENCE;
        while self.client.list_topics().await?.iter().any(|each| each.name == topic) != expected {
            if Instant::now() > end {
                return Err(format!("waited in vain for {topic} to be listed: {expected}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn topics(&self) -> Outcome {
        let topic = format!("{}-topics", self.prefix);
        let admin = self.client.controller_client()?;
        admin.create_topic(&topic, 3, 3, 60_000).await?;
        self.is_listed(&topic, true).await?;
        let listed = self.client.list_topics().await?;
        let found = listed.into_iter().find(|each| each.name == topic).ok_or("gone")?;
        expect(found.partitions.into_iter().collect(), vec![0, 1, 2])?;
        let refusal = admin.create_topic(&topic, 3, 3, 60_000).await.err().map(|error| error.to_string());
        expect(refusal.unwrap_or_default().contains("TopicAlreadyExists"), true)?;
        admin.delete_topic(&topic, 60_000).await?;
        self.is_listed(&topic, false).await
    }

    async fn compression(&self, name: &str, codec: Compression) -> Outcome {
        let partition = self.create(name).await?;
        partition.produce(records(0, 200), codec).await?;
        expect(values(&read(&partition, 0, 200).await?), (0..200).collect())
    }

    async fn headers(&self) -> Outcome {
        let partition = self.create("headers").await?;
        let every_byte: Vec<u8> = (0..=255).collect();
        let headers = [("n".to_string(), every_byte.clone()), ("snow \u{2603}".to_string(), vec![])];
        let full = Record {
            key: Some(b"key".to_vec()),
            value: Some(every_byte),
            headers: BTreeMap::from(headers),
            timestamp: time(0),
        };
        let gone = Record { key: Some(b"gone".to_vec()), value: None, headers: BTreeMap::new(), timestamp: time(1) };
        partition.produce(vec![full.clone(), gone.clone()], Compression::NoCompression).await?;
        let found = read(&partition, 0, 2).await?;
        expect(found.into_iter().map(|each| each.record).collect(), vec![full, gone])
    }

    async fn timestamps(&self) -> Outcome {
        let partition = self.create("timestamps").await?;
        partition.produce(records(0, 3), Compression::NoCompression).await?;
        let found = read(&partition, 0, 3).await?;
        expect(found.iter().map(|each| each.record.timestamp).collect(), vec![time(0), time(1), time(2)])
    }

    async fn seek_by_time(&self) -> Outcome {
        let partition = self.create("seek").await?;
        partition.produce(records(0, 20), Compression::NoCompression).await?;
        let offset = partition.get_offset(OffsetAt::Timestamp(time(11) + chrono::Duration::milliseconds(500))).await?;
        expect(offset, 12)?;
        expect(values(&read(&partition, offset, 8).await?), (12..20).collect())
    }
}

async fn read(partition: &PartitionClient, from: i64, count: usize) -> Result<Vec<RecordAndOffset>, Box<dyn Error>> {
    let (end, mut found) = (Instant::now() + PATIENCE, Vec::<RecordAndOffset>::new());
    while found.len() < count {
        if Instant::now() > end {
            return Err(format!("waited in vain for {count} records").into());
        }
        let next = found.last().map_or(from, |each| each.offset + 1);
        found.extend(partition.fetch_records(next, 1..1_000_000, 100).await?.0);
    }
    Ok(found)
}

fn plain(text: &str) -> String {
    text.chars().map(|each| if each.is_ascii_graphic() && !['"', '\\'].contains(&each) { each } else { ' ' }).collect()
}

async fn tell(feature: &str, attempt: impl Future<Output = Outcome>) {
    let outcome = match tokio::time::timeout(PATIENCE, attempt).await {
        Ok(Ok(())) => "ok".to_string(),
        Ok(Err(error)) => plain(&error.to_string()),
        Err(_) => "it took too long".to_string(),
    };
    println!("{{\"feature\": \"{feature}\", \"outcome\": \"{outcome}\"}}");
}

async fn try_everything(servers: &str, prefix: String) {
    let brokers = servers.split(',').map(str::to_string).collect();
    let trial = Trial { client: ClientBuilder::new(brokers).build().await.expect("a connection"), prefix };
    println!("{{\"version\": \"{VERSION}\"}}");
    tell("topics", trial.topics()).await;
    let codecs = [
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    for (name, codec) in codecs {
        tell(name, trial.compression(name, codec)).await;
    }
    tell("headers", trial.headers()).await;
    tell("timestamps", trial.timestamps()).await;
    tell("seek by time", trial.seek_by_time()).await;
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(try_everything(&arguments[1], arguments[2].clone()));
}
