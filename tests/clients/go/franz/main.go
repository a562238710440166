// Command franz is the adapter of franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark.dev/tests/clients/protocol"
)

type adapter struct {
	bootstrap string
	admin     *kadm.Client
	readers   map[string]*reader
	members   map[string]*member
}

// A reader keeps what it was given beyond what was asked for.
type reader struct {
	client *kgo.Client
	kept   [][]any
}

type member struct {
	client   *kgo.Client
	topic    string
	progress *protocol.Progress
	stop     context.CancelFunc
	done     chan struct{}
}

func main() {
	a := &adapter{bootstrap: os.Args[1], readers: map[string]*reader{}, members: map[string]*member{}}
	protocol.Serve(a.answer)
}

// base is what every client of this program begins with. A request is not sent again while its answer may still come.
func (a *adapter) base() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(a.bootstrap), kgo.RequestTimeoutOverhead(protocol.Patience)}
}

func (a *adapter) answer(c *protocol.Command) (protocol.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), protocol.Patience)
	defer cancel()
	if a.admin == nil {
		client, err := kgo.NewClient(a.base()...)
		if err != nil {
			return nil, err
		}
		a.admin = kadm.NewClient(client)
	}
	switch c.Do {
	case "create":
		config := map[string]*string{}
		for key, value := range c.Config {
			config[key] = &value
		}
		_, err := a.admin.CreateTopic(ctx, c.Partitions, 1, config, c.Topic)
		return nil, err
	case "partitions":
		topics, err := a.admin.ListTopics(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		return protocol.Reply{"count": len(topics[c.Topic].Partitions)}, topics[c.Topic].Err
	case "produce":
		return a.produce(ctx, c)
	case "open":
		return nil, a.open(ctx, c)
	case "take":
		records, err := a.readers[c.ID].take(ctx, c.Count)
		return protocol.Reply{"records": records}, err
	case "poll":
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		records, err := a.readers[c.ID].take(short, 1)
		return protocol.Reply{"records": records}, err
	case "close":
		a.readers[c.ID].client.Close()
		delete(a.readers, c.ID)
		return nil, nil
	case "digest":
		return a.digest(ctx, c)
	case "join":
		return nil, a.join(c)
	case "member":
		return a.members[c.ID].progress.Reply()
	case "commit":
		return nil, a.members[c.ID].commit(ctx)
	case "leave":
		m := a.members[c.ID]
		delete(a.members, c.ID)
		m.stop()
		<-m.done
		m.client.Close()
		_, err := m.progress.Reply()
		return nil, err
	case "committed":
		offsets, err := a.admin.FetchOffsets(ctx, c.Group)
		if err != nil {
			return nil, err
		}
		found, known := offsets.Lookup(c.Topic, c.Partition)
		if !known {
			return protocol.Reply{"offset": -1}, nil
		}
		return protocol.Reply{"offset": found.At}, found.Err
	case "describe":
		return a.describe(ctx, c)
	case "alter":
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: c.Key, Value: &c.Value}}
		replies, err := a.admin.AlterTopicConfigs(ctx, change, c.Topic)
		for _, reply := range replies {
			if reply.Err != nil {
				return nil, fmt.Errorf("%w: %s", reply.Err, reply.ErrMessage)
			}
		}
		return nil, err
	case "delete-records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(c.Topic, c.Partition, c.Before, -1)
		replies, err := a.admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		return nil, replies.Error()
	}
	return nil, protocol.Cannot("no command " + c.Do)
}

func (a *adapter) produce(ctx context.Context, c *protocol.Command) (protocol.Reply, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := append(a.base(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[c.Codec]),
		kgo.RequiredAcks(acks[c.Acks]),
	)
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, len(c.Values))
	for i, value := range c.Values {
		record := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Value: []byte(value)}
		if c.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*c.Timestamp + int64(i))
		}
		records = append(records, record)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	if c.Acks == "0" {
		return protocol.Reply{"first": -1}, nil
	}
	return protocol.Reply{"first": records[0].Offset}, nil
}

func (a *adapter) open(ctx context.Context, c *protocol.Command) error {
	from, err := c.Start()
	if err != nil {
		return err
	}
	offset := kgo.NewOffset().At(from.Offset)
	switch {
	case from.Beginning:
		offset = kgo.NewOffset().AtStart()
	case from.End:
		ends, err := a.admin.ListEndOffsets(ctx, c.Topic)
		if err != nil {
			return err
		}
		end, _ := ends.Lookup(c.Topic, c.Partition)
		offset = kgo.NewOffset().At(end.Offset)
	case from.Timestamp != nil:
		offset = kgo.NewOffset().AfterMilli(*from.Timestamp)
	}
	reset := kgo.NoResetOffset()
	switch c.Reset {
	case "earliest":
		reset = kgo.NewOffset().AtStart()
	case "latest":
		reset = kgo.NewOffset().AtEnd()
	}
	client, err := kgo.NewClient(append(a.base(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: {c.Partition: offset}}),
		kgo.ConsumeResetOffset(reset),
	)...)
	if err == nil {
		a.readers[c.ID] = &reader{client: client}
	}
	return err
}

// take answers at most `count` records: fewer only when the context ends first.
func (r *reader) take(ctx context.Context, count int) ([][]any, error) {
	for len(r.kept) < count {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			r.kept = append(r.kept, protocol.Record(record.Offset, record.Value))
		})
	}
	count = min(count, len(r.kept))
	records := append([][]any{}, r.kept[:count]...)
	r.kept = r.kept[count:]
	return records, nil
}

func (a *adapter) digest(ctx context.Context, c *protocol.Command) (protocol.Reply, error) {
	partitions := map[int32]kgo.Offset{}
	for partition := range c.Partitions {
		partitions[partition] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(a.base(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: partitions}),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var digest protocol.Digest
	for digest.Count() < c.Count && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil && ctx.Err() == nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { digest.Add(record.Partition, record.Offset, record.Value) })
	}
	return digest.Reply(), nil
}

func (a *adapter) join(c *protocol.Command) error {
	progress := protocol.NewProgress()
	topic := c.Topic
	assigned := func(_ context.Context, _ *kgo.Client, added map[string][]int32) { progress.Assigned(added[topic]) }
	revoked := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { progress.Revoked(gone[topic]) }
	options := append(a.base(),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(revoked),
	)
	if c.Instance != "" {
		options = append(options, kgo.InstanceID(c.Instance))
	}
	ctx, stop := context.WithCancel(context.Background())
	if c.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		options = append(options, kgo.SessionTimeout(protocol.Patience), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		stop()
		return err
	}
	m := &member{client: client, topic: topic, progress: progress, stop: stop, done: make(chan struct{})}
	a.members[c.ID] = m
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err0(); err != nil && ctx.Err() == nil {
				progress.Fail(err)
			}
			fetches.EachRecord(func(record *kgo.Record) { progress.Read(record.Partition, record.Offset) })
			client.AllowRebalance()
		}
	}()
	return nil
}

func (m *member) commit(ctx context.Context) error {
	offsets := map[string]map[int32]kgo.EpochOffset{m.topic: {}}
	for partition, next := range m.progress.Positions() {
		offsets[m.topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
	}
	var failed error
	m.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, reply *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil {
			return
		}
		for _, topic := range reply.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					failed = err
				}
			}
		}
	})
	return failed
}

func (a *adapter) describe(ctx context.Context, c *protocol.Command) (protocol.Reply, error) {
	found, err := a.admin.DescribeTopicConfigs(ctx, c.Topic)
	if err != nil {
		return nil, err
	}
	for _, resource := range found {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, config := range resource.Configs {
			if config.Key == c.Key {
				return protocol.Reply{"value": config.MaybeValue()}, nil
			}
		}
	}
	return nil, kerr.InvalidConfig
}
