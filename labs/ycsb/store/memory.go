package store

import (
	"bytes"
	"errors"
	"sync"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/ycsb"
)

// ordered is package index.
type ordered struct {
	schema  ycsb.Schema
	records *index.Bytes
	locks   stripes
}

func newOrdered(schema ycsb.Schema) *ordered {
	return &ordered{schema: schema, records: index.NewBytes()}
}

func (s *ordered) Read(key []byte) ([]byte, error) {
	if v, ok := s.records.Get(key); ok {
		return v, nil
	}
	return nil, ycsb.ErrNotFound
}

func (s *ordered) Update(key []byte, field int, value []byte) error {
	l := s.locks.of(key)
	l.Lock()
	defer l.Unlock()
	old, ok := s.records.Get(key)
	if !ok {
		return ycsb.ErrNotFound
	}
	record, err := splice(s.schema, old, field, value)
	if err == nil {
		_, _, err = s.records.Put(key, record)
	}
	return err
}

func (s *ordered) Insert(key, record []byte) error {
	l := s.locks.of(key)
	l.Lock()
	defer l.Unlock()
	_, _, err := s.records.Put(key, record)
	return err
}

func (s *ordered) Scan(key []byte, count int, fn func(key, record []byte)) error {
	if count <= 0 {
		return nil
	}
	for k, v := range s.records.Ascend(key) {
		fn(bytes.Clone(k), v)
		if count--; count == 0 {
			break
		}
	}
	return nil
}

func (s *ordered) Close() error { return nil }

// hashed is package kv/mica.
type hashed struct {
	schema     ycsb.Schema
	partitions [16]struct {
		sync.Mutex
		*mica.Partition
	}
}

func newHashed(cfg Config) (*hashed, error) {
	s := &hashed{schema: cfg.Schema}
	item := cfg.Schema.Bytes() + ycsb.MaxKey
	each := int(max(cfg.Records, 1000)) * 2 * (item + 128) / len(s.partitions)
	for i := range s.partitions {
		p, err := mica.New(mica.Config{Mode: mica.Store, Memory: each + 1<<20, ItemSize: item})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.partitions[i].Partition = p
	}
	return s, nil
}

// with calls fn with the partition of a key, locked.
func (s *hashed) with(key []byte, fn func(p *mica.Partition, hash mica.KeyHash) error) error {
	p := &s.partitions[mica.PartitionOf(mica.Hash(key), len(s.partitions))]
	p.Lock()
	defer p.Unlock()
	return fn(p.Partition, p.Hash(key))
}

func (s *hashed) Read(key []byte) (record []byte, err error) {
	err = s.with(key, func(p *mica.Partition, hash mica.KeyHash) error {
		item, ok := p.Get(hash, key)
		if !ok {
			return ycsb.ErrNotFound
		}
		record = bytes.Clone(item.Value)
		return nil
	})
	return record, err
}

func (s *hashed) Update(key []byte, field int, value []byte) error {
	return s.with(key, func(p *mica.Partition, hash mica.KeyHash) error {
		item, ok := p.Get(hash, key)
		if !ok {
			return ycsb.ErrNotFound
		}
		record, err := splice(s.schema, item.Value, field, value)
		if err != nil {
			return err
		}
		return put(p, hash, key, record)
	})
}

func (s *hashed) Insert(key, record []byte) error {
	return s.with(key, func(p *mica.Partition, hash mica.KeyHash) error {
		return put(p, hash, key, record)
	})
}

func put(p *mica.Partition, hash mica.KeyHash, key, record []byte) error {
	err := p.Put(hash, key, record)
	if errors.Is(err, mica.ErrFull) {
		return ErrFull
	}
	return err
}

func (s *hashed) Scan([]byte, int, func(key, record []byte)) error { return ErrNoScans }

func (s *hashed) Close() error {
	var errs []error
	for i := range s.partitions {
		if p := s.partitions[i].Partition; p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
