package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/userspace-rpc/erpc/ycsb"
)

// disk is pebble.
type disk struct {
	schema ycsb.Schema
	db     *pebble.DB
	locks  stripes
}

// quiet drops what pebble says of its files, but not its last words.
type quiet struct{ pebble.Logger }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

func openPebble(cfg Config) (*disk, error) {
	if cfg.Dir == "" {
		return nil, errors.New("store: pebble needs a directory")
	}
	db, err := pebble.Open(cfg.Dir, &pebble.Options{Logger: quiet{pebble.DefaultLogger}})
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", cfg.Dir, err)
	}
	return &disk{schema: cfg.Schema, db: db}, nil
}

func (s *disk) Read(key []byte) ([]byte, error) {
	v, done, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ycsb.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	record := bytes.Clone(v)
	return record, done.Close()
}

func (s *disk) Update(key []byte, field int, value []byte) error {
	l := s.locks.of(key)
	l.Lock()
	defer l.Unlock()
	old, err := s.Read(key)
	if err != nil {
		return err
	}
	record, err := splice(s.schema, old, field, value)
	if err != nil {
		return err
	}
	return s.db.Set(key, record, pebble.NoSync)
}

func (s *disk) Insert(key, record []byte) error {
	l := s.locks.of(key)
	l.Lock()
	defer l.Unlock()
	return s.db.Set(key, record, pebble.NoSync)
}

func (s *disk) Scan(key []byte, count int, fn func(key, record []byte)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: key})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && count > 0; ok = it.Next() {
		fn(bytes.Clone(it.Key()), bytes.Clone(it.Value()))
		count--
	}
	return errors.Join(it.Error(), it.Close())
}

func (s *disk) Close() error { return s.db.Close() }
