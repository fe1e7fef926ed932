package ycsb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// DB is a store as clients see it. A value that it returns may be valid until the next call only.
// ErrNotFound is the error of a key that is not there.
type DB interface {
	Read(ctx context.Context, key []byte) (record []byte, err error)
	Update(ctx context.Context, key []byte, field int, value []byte) error
	Insert(ctx context.Context, key, record []byte) error
	// Scan returns up to count records in order of their keys, from the first key on.
	Scan(ctx context.Context, key []byte, count int) ([]Entry, error)
}

// Entry is a record of a scan.
type Entry struct{ Key, Record []byte }

// Errors of answers. A Client counts them, and goes on.
var (
	ErrNotFound = errors.New("ycsb: the key is not there")
	ErrStale    = errors.New("ycsb: an older version than this client has written")
	ErrScan     = errors.New("ycsb: a scan in the wrong order, of the wrong length, or with a gap")
)

// Counts says what came of the operations of clients.
type Counts struct {
	Done    int64 // answered, and right
	Missing int64 // records that were acknowledged and are not there, also within scans
	Wrong   int64 // answers with bytes that nobody wrote, or in the wrong order
	Stale   int64 // answers without a write of the same client
	Failed  int64 // the DB's own errors
}

// Add adds the counts of another client.
func (c *Counts) Add(d Counts) {
	c.Done += d.Done
	c.Missing += d.Missing
	c.Wrong += d.Wrong
	c.Stale += d.Stale
	c.Failed += d.Failed
}

// Bad is how many operations were answered, and not right.
func (c Counts) Bad() int64 { return c.Missing + c.Wrong + c.Stale }

// Config describes a Client.
type Config struct {
	Workload Workload
	Schema   Schema
	Keys     *Keyspace
	ID       uint32 // of the writer, from 1 on; no two clients of a store have the same one
	Seed     uint64
	// Sorted has the keys that were loaded, in order: SortedKeys. With it scans are searched for
	// gaps. May be nil.
	Sorted [][]byte
}

// SortedKeys returns the keys of records 0 to n-1 in order.
func SortedKeys(n int64) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = AppendKey(nil, int64(i))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// Client makes one operation after the other and checks each answer. One goroutine uses it.
type Client struct {
	cfg      Config
	gen      *Generator
	writes   uint64 // of this client
	written  map[int64][]uint64
	counts   Counts
	key      []byte
	value    []byte
	versions []uint64
}

// NewClient returns a Client. Errors match ErrWorkload or ErrSchema.
func NewClient(cfg Config) (*Client, error) {
	var err error
	if cfg.Schema, err = cfg.Schema.Complete(); err != nil {
		return nil, err
	}
	gen, err := NewGenerator(cfg.Workload, cfg.Keys, cfg.Schema.Fields, cfg.Seed, uint64(cfg.ID))
	if err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, gen: gen, written: map[int64][]uint64{}, value: make([]byte, cfg.Schema.Bytes()),
		versions: make([]uint64, cfg.Schema.Fields),
	}, nil
}

// Counts returns what came of the operations so far.
func (c *Client) Counts() Counts { return c.counts }

// Step makes the next operation. The error is that of the DB, or says what is wrong with the
// answer (ErrNotFound, ErrLength, ErrContent, ErrStale, ErrScan); either is counted.
func (c *Client) Step(ctx context.Context, db DB) (Op, error) {
	r := c.gen.Next()
	c.key = AppendKey(c.key[:0], r.Record)
	err := c.do(ctx, db, r)
	switch {
	case err == nil:
		c.counts.Done++
	case errors.Is(err, ErrNotFound):
		c.counts.Missing++
	case errors.Is(err, ErrStale):
		c.counts.Stale++
	case errors.Is(err, ErrLength), errors.Is(err, ErrContent), errors.Is(err, ErrScan):
		c.counts.Wrong++
	default:
		c.counts.Failed++
	}
	return r.Op, err
}

func (c *Client) do(ctx context.Context, db DB, r Request) error {
	switch r.Op {
	case Read:
		return c.read(ctx, db, r.Record)
	case Update:
		return c.update(ctx, db, r)
	case ReadModifyWrite:
		if err := c.read(ctx, db, r.Record); err != nil {
			return err
		}
		return c.update(ctx, db, r)
	case Scan:
		got, err := db.Scan(ctx, c.key, r.Count)
		if err != nil {
			return err
		}
		return c.checkScan(got, r.Count)
	default:
		c.cfg.Schema.Fill(c.value, c.key, c.version())
		err := db.Insert(ctx, c.key, c.value)
		c.cfg.Keys.Inserted(r.Record, err == nil)
		return err
	}
}

// version names the next write.
func (c *Client) version() uint64 {
	c.writes++
	return uint64(c.cfg.ID)<<40 | c.writes&(1<<40-1)
}

func (c *Client) read(ctx context.Context, db DB, record int64) error {
	got, err := db.Read(ctx, c.key)
	if err != nil {
		return err
	}
	if err := c.cfg.Schema.Check(got, c.key, c.versions); err != nil {
		return err
	}
	for f, mine := range c.written[record] {
		if v := c.versions[f]; v < mine && (v == 0 || v>>40 == uint64(c.cfg.ID)) {
			return fmt.Errorf("%w: field %d of %s: %#x before %#x", ErrStale, f, c.key, v, mine)
		}
	}
	return nil
}

func (c *Client) update(ctx context.Context, db DB, r Request) error {
	value, version := c.value[:c.cfg.Schema.FieldBytes], c.version()
	c.cfg.Schema.FillField(value, c.key, r.Field, version)
	if err := db.Update(ctx, c.key, r.Field, value); err != nil {
		return err
	}
	mine := c.written[r.Record]
	if mine == nil {
		mine = make([]uint64, c.cfg.Schema.Fields)
		c.written[r.Record] = mine
	}
	mine[r.Field] = version
	return nil
}

// checkScan looks at each record of a scan from c.key on.
func (c *Client) checkScan(got []Entry, count int) error {
	if len(got) > count {
		return fmt.Errorf("%w: %d records, not %d", ErrScan, len(got), count)
	}
	if len(got) == 0 || !bytes.Equal(got[0].Key, c.key) {
		return fmt.Errorf("%w: %s, from which a scan begins", ErrNotFound, c.key)
	}
	for i, e := range got {
		if i > 0 && bytes.Compare(got[i-1].Key, e.Key) >= 0 {
			return fmt.Errorf("%w: %s before %s", ErrScan, got[i-1].Key, e.Key)
		}
		if err := c.cfg.Schema.Check(e.Record, e.Key, c.versions); err != nil {
			return err
		}
	}
	return c.checkGaps(got, count)
}

// checkGaps looks for the loaded keys that a scan should have seen.
func (c *Client) checkGaps(got []Entry, count int) error {
	i, _ := slices.BinarySearchFunc(c.cfg.Sorted, c.key, bytes.Compare)
	for _, e := range got {
		if i == len(c.cfg.Sorted) {
			return nil
		}
		switch order := bytes.Compare(e.Key, c.cfg.Sorted[i]); {
		case order == 0:
			i++
		case order > 0:
			return fmt.Errorf("%w: %s, within a scan", ErrNotFound, c.cfg.Sorted[i])
		}
	}
	if len(got) < count && i < len(c.cfg.Sorted) {
		return fmt.Errorf("%w: %s, behind a scan that ended early", ErrNotFound, c.cfg.Sorted[i])
	}
	return nil
}
