// Command sarama is the adapter of sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	"tidemark.dev/tests/clients/protocol"
)

type adapter struct {
	client  sarama.Client
	admin   sarama.ClusterAdmin
	readers map[string]*reader
	members map[string]*member
}

type reader struct {
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
}

func main() {
	a := &adapter{readers: map[string]*reader{}, members: map[string]*member{}}
	var err error
	if a.client, err = sarama.NewClient([]string{os.Args[1]}, config()); err == nil {
		a.admin, err = sarama.NewClusterAdminFromClient(a.client)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	protocol.Serve(a.answer)
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	// A request is not sent again while its answer may still come.
	config.Net.DialTimeout, config.Net.ReadTimeout, config.Net.WriteTimeout = protocol.Patience, protocol.Patience, protocol.Patience
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	return config
}

func (a *adapter) answer(c *protocol.Command) (protocol.Reply, error) {
	switch c.Do {
	case "create":
		entries := map[string]*string{}
		for key, value := range c.Config {
			entries[key] = &value
		}
		detail := &sarama.TopicDetail{NumPartitions: c.Partitions, ReplicationFactor: 1, ConfigEntries: entries}
		return nil, a.admin.CreateTopic(c.Topic, detail, false)
	case "partitions":
		if err := a.client.RefreshMetadata(c.Topic); err != nil {
			return nil, err
		}
		found, err := a.client.Partitions(c.Topic)
		return protocol.Reply{"count": len(found)}, err
	case "produce":
		return a.produce(c)
	case "open":
		return nil, a.open(c)
	case "take":
		records, err := a.readers[c.ID].take(c.Count, protocol.Patience)
		return protocol.Reply{"records": records}, err
	case "poll":
		records, err := a.readers[c.ID].take(1, 500*time.Millisecond)
		return protocol.Reply{"records": records}, err
	case "close":
		r, open := a.readers[c.ID]
		if !open {
			return nil, errors.New("no such reader")
		}
		delete(a.readers, c.ID)
		r.partition.AsyncClose()
		return nil, r.consumer.Close()
	case "digest":
		return a.digest(c)
	case "join":
		return nil, a.join(c)
	case "member":
		return a.members[c.ID].progress.Reply()
	case "commit":
		return nil, a.members[c.ID].commit()
	case "leave":
		m := a.members[c.ID]
		delete(a.members, c.ID)
		return nil, m.leave()
	case "committed":
		reply, err := a.admin.ListConsumerGroupOffsets(c.Group, map[string][]int32{c.Topic: {c.Partition}})
		if err != nil {
			return nil, err
		}
		block := reply.GetBlock(c.Topic, c.Partition)
		if block == nil {
			return protocol.Reply{"offset": -1}, nil
		}
		if !errors.Is(block.Err, sarama.ErrNoError) {
			return nil, block.Err
		}
		return protocol.Reply{"offset": block.Offset}, nil
	case "describe":
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: c.Topic, ConfigNames: []string{c.Key}}
		entries, err := a.admin.DescribeConfig(resource)
		if err != nil || len(entries) == 0 {
			return nil, fmt.Errorf("no answer for %s: %w", c.Key, err)
		}
		return protocol.Reply{"value": entries[0].Value}, nil
	case "alter":
		change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &c.Value}
		entries := map[string]sarama.IncrementalAlterConfigsEntry{c.Key: change}
		return nil, a.admin.IncrementalAlterConfig(sarama.TopicResource, c.Topic, entries, false)
	case "delete-records":
		return nil, a.admin.DeleteRecords(c.Topic, map[int32]int64{c.Partition: c.Before})
	}
	return nil, protocol.Cannot("no command " + c.Do)
}

func (a *adapter) produce(c *protocol.Command) (protocol.Reply, error) {
	settings := config()
	settings.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[c.Codec]
	settings.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}[c.Acks]
	if c.Idempotent {
		settings.Producer.Idempotent = true
		settings.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{a.client.Brokers()[0].Addr()}, settings)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, 0, len(c.Values))
	for i, value := range c.Values {
		message := &sarama.ProducerMessage{Topic: c.Topic, Partition: c.Partition, Value: sarama.StringEncoder(value)}
		if c.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*c.Timestamp + int64(i))
		}
		messages = append(messages, message)
	}
	if err := producer.SendMessages(messages); err != nil {
		var failed sarama.ProducerErrors
		if errors.As(err, &failed) && len(failed) > 0 {
			return nil, failed[0].Err
		}
		return nil, err
	}
	if c.Acks == "0" {
		return protocol.Reply{"first": -1}, nil
	}
	return protocol.Reply{"first": messages[0].Offset}, nil
}

func (a *adapter) open(c *protocol.Command) error {
	from, err := c.Start()
	if err != nil {
		return err
	}
	offset := from.Offset
	switch {
	case from.Beginning:
		offset = sarama.OffsetOldest
	case from.End:
		offset, err = a.client.GetOffset(c.Topic, c.Partition, sarama.OffsetNewest)
	case from.Timestamp != nil:
		offset, err = a.client.GetOffset(c.Topic, c.Partition, *from.Timestamp)
	}
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerFromClient(a.client)
	if err != nil {
		return err
	}
	partition, err := consumer.ConsumePartition(c.Topic, c.Partition, offset)
	// Outside of groups sarama leaves the reset to its user, who is told by this error.
	if errors.Is(err, sarama.ErrOffsetOutOfRange) && c.Reset != "none" {
		offset = map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest}[c.Reset]
		partition, err = consumer.ConsumePartition(c.Topic, c.Partition, offset)
	}
	if errors.Is(err, sarama.ErrOffsetOutOfRange) {
		err = fmt.Errorf("OFFSET_OUT_OF_RANGE: %w", err)
	}
	if err != nil {
		consumer.Close()
		return err
	}
	a.readers[c.ID] = &reader{consumer: consumer, partition: partition}
	return nil
}

// take answers at most `count` records: fewer only when the time is over.
func (r *reader) take(count int, patience time.Duration) ([][]any, error) {
	records := [][]any{}
	over := time.After(patience)
	for len(records) < count {
		select {
		case message := <-r.partition.Messages():
			records = append(records, protocol.Record(message.Offset, message.Value))
		case err := <-r.partition.Errors():
			return nil, err
		case <-over:
			return records, nil
		}
	}
	return records, nil
}

func (a *adapter) digest(c *protocol.Command) (protocol.Reply, error) {
	consumer, err := sarama.NewConsumerFromClient(a.client)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	messages := make(chan *sarama.ConsumerMessage)
	done := make(chan struct{})
	defer close(done)
	for number := range c.Partitions {
		partition, err := consumer.ConsumePartition(c.Topic, number, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		defer partition.AsyncClose()
		go func() {
			for message := range partition.Messages() {
				select {
				case messages <- message:
				case <-done:
					return
				}
			}
		}()
	}
	var digest protocol.Digest
	over := time.After(protocol.Patience)
	for digest.Count() < c.Count {
		select {
		case message := <-messages:
			digest.Add(message.Partition, message.Offset, message.Value)
		case <-over:
			return digest.Reply(), nil
		}
	}
	return digest.Reply(), nil
}

// A member is a consumer group's session after session, until it leaves.
type member struct {
	group    sarama.ConsumerGroup
	topic    string
	progress *protocol.Progress
	session  chan sarama.ConsumerGroupSession
	stop     context.CancelFunc
	done     chan struct{}
}

func (a *adapter) join(c *protocol.Command) error {
	if c.Protocol != "classic" {
		return protocol.Cannot("no consumer-group protocol")
	}
	settings := config()
	settings.Consumer.Group.InstanceId = c.Instance
	settings.Consumer.Group.Session.Timeout = protocol.Patience
	settings.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{a.client.Brokers()[0].Addr()}, c.Group, settings)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{
		group: group, topic: c.Topic, progress: protocol.NewProgress(),
		session: make(chan sarama.ConsumerGroupSession, 1), stop: stop, done: make(chan struct{}),
	}
	a.members[c.ID] = m
	go func() {
		for err := range group.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{c.Topic}, m); err != nil && ctx.Err() == nil {
				m.progress.Fail(err)
				return
			}
		}
	}()
	return nil
}

// Setup is called when a session begins.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.progress.Assigned(session.Claims()[m.topic])
	m.session <- session
	return nil
}

// Cleanup is called when a session is over.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	<-m.session
	m.progress.Revoked(session.Claims()[m.topic])
	return nil
}

// ConsumeClaim reads one partition for a session.
func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.progress.Read(message.Partition, message.Offset)
	}
	return nil
}

func (m *member) commit() error {
	session := <-m.session
	defer func() { m.session <- session }()
	for partition, next := range m.progress.Positions() {
		session.MarkOffset(m.topic, partition, next, "")
	}
	session.Commit()
	return nil
}

func (m *member) leave() error {
	m.stop()
	<-m.done
	if _, err := m.progress.Reply(); err != nil {
		return err
	}
	return m.group.Close()
}
