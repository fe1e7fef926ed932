package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/ycsb"
)

// Errors of stores, beside ycsb.ErrNotFound.
var (
	ErrUnknown = errors.New("store: unknown store")
	ErrNoScans = errors.New("store: this store has no order, and no scans")
	ErrField   = errors.New("store: no such field, or of another length")
	ErrTooMany = errors.New("store: a scan of too many records")
	ErrFull    = errors.New("store: full")
)

// MaxScan bounds the records of a scan.
const MaxScan = 1000

// Store holds records. Any number of goroutines may use it.
type Store interface {
	// Read returns a record, which the store does not change any more.
	Read(key []byte) (record []byte, err error)
	// Update writes a field.
	Update(key []byte, field int, value []byte) error
	// Insert writes a record. It keeps neither slice.
	Insert(key, record []byte) error
	// Scan calls fn with up to count records from a key on. fn may keep both slices.
	Scan(key []byte, count int, fn func(key, record []byte)) error
	Close() error
}

// Config describes a store.
type Config struct {
	Kind    string // "index", "mica" or "pebble"
	Schema  ycsb.Schema
	Records int64  // to make room for, where room is limited; twice as many find it
	Dir     string // of pebble
}

// Kinds names the stores.
var Kinds = []string{"index", "mica", "pebble"}

// Open opens an empty store, or pebble's as it was left. Errors: ErrUnknown, those of Schema, of
// the system and of pebble.
func Open(cfg Config) (Store, error) {
	var err error
	if cfg.Schema, err = cfg.Schema.Complete(); err != nil {
		return nil, err
	}
	switch cfg.Kind {
	case "index":
		return newOrdered(cfg.Schema), nil
	case "mica":
		return newHashed(cfg)
	case "pebble":
		return openPebble(cfg)
	}
	return nil, fmt.Errorf("%w: %q; there are %v", ErrUnknown, cfg.Kind, Kinds)
}

// Supports returns ErrNoScans if a store of that kind cannot run the workload.
func Supports(kind string, w ycsb.Workload) error {
	if kind == "mica" && w.Shares[ycsb.Scan] > 0 {
		return fmt.Errorf("%w: workload %s on %s", ErrNoScans, w.Name, kind)
	}
	return nil
}

// Load inserts records 0 to n-1.
func Load(s Store, schema ycsb.Schema, n int64) error {
	schema, err := schema.Complete()
	if err != nil {
		return err
	}
	var key []byte
	record := make([]byte, schema.Bytes())
	for i := range n {
		key = ycsb.AppendKey(key[:0], i)
		schema.Fill(record, key, 0)
		if err := s.Insert(key, record); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

// stripes are the locks of updates.
type stripes [256]struct {
	sync.Mutex
	_ [56]byte // a cache line each
}

func (l *stripes) of(key []byte) *sync.Mutex { return &l[mica.Hash(key)%uint64(len(l))].Mutex }

// splice returns a copy of a record with another field.
func splice(schema ycsb.Schema, record []byte, field int, value []byte) ([]byte, error) {
	if field < 0 || field >= schema.Fields || len(value) != schema.FieldBytes ||
		len(record) != schema.Bytes() {
		return nil, fmt.Errorf("%w: field %d of %d bytes", ErrField, field, len(value))
	}
	record = append(make([]byte, 0, len(record)), record...)
	copy(record[field*schema.FieldBytes:], value)
	return record, nil
}
