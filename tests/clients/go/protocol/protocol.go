// Package protocol runs a Go client by commands, a JSON object a line; ../../adapter.rs says which.
package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sort"
	"sync"
	"time"
)

// Patience is how long a client waits for records before it says that they did not come, and for an answer before it asks again.
const Patience = 240 * time.Second

// Cannot is the error of a command that the client has no way to carry out.
type Cannot string

func (reason Cannot) Error() string { return string(reason) }

// Command holds the fields of every command.
type Command struct {
	Do         string            `json:"do"`
	ID         string            `json:"id"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Config     map[string]string `json:"config"`
	Values     []string          `json:"values"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Timestamp  *int64            `json:"timestamp"`
	From       json.RawMessage   `json:"from"`
	Reset      string            `json:"reset"`
	Count      int               `json:"count"`
	Group      string            `json:"group"`
	Instance   string            `json:"instance"`
	Protocol   string            `json:"protocol"`
	Key        string            `json:"key"`
	Value      string            `json:"value"`
	Before     int64             `json:"before"`
}

// From says where a reader starts; exactly one of the fields counts, an offset when neither other is set.
type From struct {
	Beginning, End bool
	Timestamp      *int64
	Offset         int64
}

// Start reads the field `from`.
func (c *Command) Start() (from From, err error) {
	switch string(c.From) {
	case `"beginning"`:
		from.Beginning = true
	case `"end"`:
		from.End = true
	default:
		if json.Unmarshal(c.From, &from.Offset) != nil {
			var at struct{ Timestamp int64 }
			err = json.Unmarshal(c.From, &at)
			from.Timestamp = &at.Timestamp
		}
	}
	return from, err
}

// Reply is what a command answers.
type Reply map[string]any

// Serve reads commands until there are none and answers each.
func Serve(answer func(*Command) (Reply, error)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var command Command
		var reply Reply
		if err = json.Unmarshal(line, &command); err == nil {
			reply, err = answer(&command)
		}
		var cannot Cannot
		if errors.As(err, &cannot) {
			reply = Reply{"cannot": string(cannot)}
		} else if err != nil {
			reply = Reply{"error": err.Error()}
		} else if reply == nil {
			reply = Reply{}
		}
		text, _ := json.Marshal(reply)
		fmt.Println(string(text))
	}
}

// Record is one record as `take` and `poll` answer it.
func Record(offset int64, value []byte) []any { return []any{offset, string(value)} }

// Digest tells whether exactly the right records came.
type Digest struct {
	count int
	sum   uint64
}

// Add counts a record in.
func (d *Digest) Add(partition int32, offset int64, value []byte) {
	d.count++
	d.sum += uint64(crc32.ChecksumIEEE(fmt.Appendf(nil, "%d:%d:%s", partition, offset, value)))
}

// Count is the number of records so far.
func (d *Digest) Count() int { return d.count }

// Reply is what `digest` answers.
func (d *Digest) Reply() Reply { return Reply{"count": d.count, "sum": d.sum} }

// Progress is what a member of a group has read. Its methods may be called from any goroutine.
type Progress struct {
	mutex      sync.Mutex
	partitions map[int32]bool
	first      map[int32]int64
	next       map[int32]int64
	count      int
	rebalances int
	err        error
}

// NewProgress is a member that has nothing yet.
func NewProgress() *Progress {
	return &Progress{partitions: map[int32]bool{}, first: map[int32]int64{}, next: map[int32]int64{}}
}

// Assigned adds partitions and counts an assignment.
func (p *Progress) Assigned(partitions []int32) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, each := range partitions {
		p.partitions[each] = true
	}
	p.rebalances++
}

// Revoked takes partitions away.
func (p *Progress) Revoked(partitions []int32) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, each := range partitions {
		delete(p.partitions, each)
	}
}

// Read notes a record.
func (p *Progress) Read(partition int32, offset int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if _, known := p.first[partition]; !known {
		p.first[partition] = offset
	}
	p.next[partition] = offset + 1
	p.count++
}

// Fail makes the next reply an error.
func (p *Progress) Fail(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.err = err
}

// Positions are the next offsets of the partitions that the member has now and has read from.
func (p *Progress) Positions() map[int32]int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	own := map[int32]int64{}
	for partition := range p.partitions {
		if next, read := p.next[partition]; read {
			own[partition] = next
		}
	}
	return own
}

// Reply is what `member` answers.
func (p *Progress) Reply() (Reply, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	own := []int{}
	for partition := range p.partitions {
		own = append(own, int(partition))
	}
	sort.Ints(own)
	first := map[int32]int64{}
	for partition, offset := range p.first {
		first[partition] = offset
	}
	return Reply{"partitions": own, "first": first, "count": p.count, "rebalances": p.rebalances}, p.err
}
