package durable

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/index"
)

// TestLastSecond: with EverySecond a power failure loses what was acknowledged in the last second
// and the time of two syncs, but never more than two seconds; times when writes waited do not
// count.
func TestLastSecond(t *testing.T) {
	for _, slow := range []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond,
		950 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := newSimDisk()
			s := numbers(index.NewMap())
			if err := s.open(d, Config{}); err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			d.slow = slow
			d.mu.Unlock()
			const each, whole = 7 * time.Millisecond, 12 * time.Second
			acked := 0
			for begun := time.Now(); time.Since(begun) < whole; {
				acked++
				if _, _, err := s.Put([]byte("key"), uint64(acked)); err != nil {
					t.Fatal(err)
				}
				<-time.After(each)
				if acked%8 > 0 {
					continue
				}
				m := index.NewMap()
				left := numbers(m)
				if err := left.open(d.powerFailed(nil), Config{}); err != nil {
					t.Fatal(err)
				}
				n, _ := m.Get([]byte("key"))
				if err := left.Close(); err != nil {
					t.Fatal(err)
				}
				most := (second+min(2*slow, second)+2*gather)/each + 1
				if lost := acked - int(n); lost > int(most) {
					t.Errorf("a sync takes %v: %d writes are lost, at most %d may", slow, lost, most)
				}
			}
			if slow < second && acked < int(whole/each)*9/10 {
				t.Errorf("a sync takes %v: %d writes", slow, acked)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestHang: while a sync hangs nothing is acknowledged that it would have to cover. Reads go on,
// and somebody is told. It goes on when the disk does.
func TestHang(t *testing.T) {
	for _, policy := range []Policy{Always, EverySecond} {
		synctest.Test(t, func(t *testing.T) {
			d, m := newSimDisk(), index.NewMap()
			s := numbers(m)
			var told []string
			report := func(err error) { told = append(told, err.Error()) }
			err := s.open(d, Config{Sync: policy, Report: report})
			if err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			d.hang = make(chan struct{})
			d.mu.Unlock()
			var acked atomic.Int64
			go func() {
				for i := range 5000 {
					if _, _, err := s.Put([]byte(strconv.Itoa(i)), 1); err != nil {
						return
					}
					acked.Add(1)
					<-time.After(time.Millisecond)
				}
			}()
			<-time.After(4 * time.Second)
			synctest.Wait()
			now, most := acked.Load(), map[Policy]int64{Always: 0, EverySecond: 1100}[policy]
			if now > most || policy == EverySecond && now < 500 || s.Ready() {
				t.Errorf("policy %d: %d writes are acknowledged, ready %v", policy, now, s.Ready())
			}
			if _, ok := m.Get([]byte("0")); !ok {
				t.Error("a read")
			}
			if len(told) != 1 || !strings.Contains(told[0], "longer than 1s") {
				t.Errorf("told %q", told)
			}
			d.mu.Lock()
			close(d.hang)
			d.hang = nil
			d.mu.Unlock()
			<-time.After(10 * time.Second)
			if acked.Load() != 5000 {
				t.Errorf("policy %d: it did not go on: %d", policy, acked.Load())
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoMore: when the log has failed each call says so, also one that waits, and reads go on. A
// sync that failed is not tried again: it would say that all is well.
func TestNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newSimDisk(), index.NewMap()
		s := numbers(m)
		var told []error
		err := s.open(d, Config{Sync: Always, Report: func(err error) { told = append(told, err) }})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Put([]byte("a"), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.mu.Lock()
		d.at, d.wrong, d.hang = d.ops+2, errDisk, make(chan struct{}) // a write, and the sync
		hang := d.hang
		d.mu.Unlock()
		results := make(chan error, 3)
		for i := range cap(results) {
			go func() {
				_, _, err := s.Put(fmt.Append(nil, i), 2)
				results <- err
			}()
			synctest.Wait()
		}
		d.mu.Lock()
		d.hang = nil
		d.mu.Unlock()
		close(hang)
		for range cap(results) {
			if err := <-results; !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) {
				t.Error(err)
			}
		}
		synctest.Wait() // the report comes after the answers
		ops := d.ops
		_, _, put := s.Put([]byte("b"), 1)
		_, _, del := s.Delete([]byte("a"))
		if !errors.Is(put, ErrFailed) || !errors.Is(del, ErrFailed) || !errors.Is(s.Err(), errDisk) {
			t.Error(put, del, s.Err())
		}
		if _, ok := m.Get([]byte("b")); ok {
			t.Error("a write that was refused is in the map")
		}
		if v, ok := m.Get([]byte("a")); v != 1 || !ok {
			t.Error("a read")
		}
		<-time.After(5 * time.Second)
		if len(told) != 1 || !errors.Is(told[0], errDisk) || d.ops != ops {
			t.Errorf("told %v; %d operations since", told, d.ops-ops)
		}
		if err := s.Close(); !errors.Is(err, errDisk) {
			t.Error(err)
		}
	})
}

// TestBehind: a write that has waited for its stripe waits for the disk too, and where a GiB waits
// one that does not wait is refused. Neither changes the map.
func TestBehind(t *testing.T) {
	m := index.NewMap()
	s := numbers(m)
	if err := s.open(newSimDisk(), Config{}); err != nil {
		t.Fatal(err)
	}
	s.stalled.Store(true)
	if _, _, _, err := s.try(Put, []byte("k"), 1, true); err != errWait {
		t.Error(err)
	}
	if _, _, _, err := s.Try(Delete, []byte("k"), 0); err != nil {
		t.Error(err)
	}
	s.behind.Store(true)
	if _, _, _, err := s.Try(Put, []byte("k"), 1); err != ErrBehind {
		t.Error(err)
	}
	if m.Len() > 0 {
		t.Error("a write that was refused is in the map")
	}
	s.Log.change(func() {}) // the buffer is small
	if _, _, err := s.Put([]byte("k"), 1); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
