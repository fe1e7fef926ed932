package main

import (
	"encoding/binary"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

// fileStore is a log that hashicorp/raft keeps in memory and, if there is a file, in one that is
// synced for each call: less than any real store of it does, since nothing is ever read back.
type fileStore struct {
	*raft.InmemStore
	f    *os.File
	mu   sync.Mutex
	buf  []byte
	took []time.Duration
}

// StoreLogs implements raft.LogStore.
func (s *fileStore) StoreLogs(logs []*raft.Log) error {
	if err := s.write(func(b []byte) []byte {
		for _, l := range logs {
			b = binary.LittleEndian.AppendUint64(b, l.Index)
			b = binary.LittleEndian.AppendUint64(b, l.Term)
			b = binary.LittleEndian.AppendUint64(b, uint64(len(l.Data)))
			b = append(b, l.Data...)
		}
		return b
	}); err != nil {
		return err
	}
	return s.InmemStore.StoreLogs(logs)
}

// StoreLog implements raft.LogStore.
func (s *fileStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// Set implements raft.StableStore.
func (s *fileStore) Set(key, value []byte) error {
	err := s.write(func(b []byte) []byte { return append(append(b, key...), value...) })
	if err != nil {
		return err
	}
	return s.InmemStore.Set(key, value)
}

// SetUint64 implements raft.StableStore.
func (s *fileStore) SetUint64(key []byte, v uint64) error {
	err := s.write(func(b []byte) []byte {
		return binary.LittleEndian.AppendUint64(append(b, key...), v)
	})
	if err != nil {
		return err
	}
	return s.InmemStore.SetUint64(key, v)
}

func (s *fileStore) write(fill func(b []byte) []byte) error {
	if s.f == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = fill(s.buf[:0])
	began := monotime.Now()
	_, err := s.f.Write(s.buf)
	if err == nil {
		err = s.f.Sync()
	}
	if len(s.took) < 1<<16 {
		s.took = append(s.took, monotime.Now().Sub(began))
	}
	return err
}

// median is how long a write with its sync takes.
func (s *fileStore) median() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return 0
	}
	list := slices.Clone(s.took)
	slices.Sort(list)
	return list[len(list)/2]
}
