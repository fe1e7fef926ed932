package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/index"
)

// meanwhile is a map that does something between a change and what follows it.
type meanwhile struct {
	tree[uint64]
	then func()
}

func (m *meanwhile) Put(key []byte, v uint64) (old uint64, there bool, err error) {
	old, there, err = m.tree.Put(key, v)
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return old, there, err
}

// TestOrderOfKey: two writes to a key are in the log in the order in which the map had them, though
// the second one comes between the change by the first and its record.
func TestOrderOfKey(t *testing.T) {
	d, m := newSimDisk(), index.NewMap()
	s := numbers(m)
	if err := s.open(d, Config{}); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	s.m = &meanwhile{s.m, func() {
		var done atomic.Bool
		go func() {
			_, _, err := s.Put([]byte("key"), 2)
			done.Store(true)
			second <- err
		}()
		for i := 0; i < 10000 && !done.Load(); i++ {
			runtime.Gosched() // it waits for the key
		}
	}}
	_, _, err := s.Put([]byte("key"), 1)
	if err = errors.Join(err, <-second, s.Close()); err != nil {
		t.Fatal(err)
	}
	again := index.NewMap()
	s = numbers(again)
	if err := s.open(d, Config{}); err != nil {
		t.Fatal(err)
	}
	if had, _ := m.Get([]byte("key")); had != 2 || text(again) != text(m) {
		t.Errorf("the map had %d: %s, and has %s", had, text(m), text(again))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestOrder: goroutines write to the same keys at once. The map has the same after a restart.
func TestOrder(t *testing.T) {
	for _, policy := range policies {
		path := t.TempDir()
		m := index.NewMap()
		s, err := Open(path, m, Config{Sync: policy, size: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for i := range 3000 {
					key := fmt.Appendf(nil, "a longer key %d", r.IntN(4))
					var err error
					switch r.IntN(4) {
					case 0:
						_, _, err = s.Delete(key)
					case 1:
						_, _, err = s.PutIfAbsent(key, uint64(i<<8|g))
					default:
						_, _, err = s.Put(key, uint64(i<<8|g))
					}
					if err != nil {
						t.Error(err)
						return
					}
					if policy == Always && i == 300 {
						return
					}
				}
			})
		}
		all.Wait()
		want := text(m)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Put(nil, 1); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		m = index.NewMap()
		if s, err = Open(path, m, Config{}); err != nil {
			t.Fatal(err)
		}
		if got := text(m); got != want {
			t.Errorf("policy %d: it has\n%s, want\n%s", policy, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBytes: values of any length come back, from logs and from bases.
func TestBytes(t *testing.T) {
	path := t.TempDir()
	want := index.NewBytes()
	for round := range 4 {
		m := index.NewBytes()
		s, err := OpenBytes(path, m, Config{size: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		if text(m) != text(want) {
			t.Fatalf("round %d: %d keys, want %d", round, m.Len(), want.Len())
		}
		for i := range 60 {
			key := fmt.Appendf(nil, "%0*d", i*4, i)
			value := bytes.Repeat([]byte{byte(i + round)}, i*i*i/10)
			_, _, e1 := want.Put(key, value)
			old, there, e2 := s.Put(key, value)
			if err := errors.Join(e1, e2); err != nil || there != (round > 0 && i%7 != 3) ||
				there && len(old) != len(value) {
				t.Fatal(round, i, there, err)
			}
			if i%7 == 3 {
				want.Delete(key)
				_, _, err = s.Delete(key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Put(make([]byte, 256), nil); !errors.Is(err, index.ErrKeyTooLong) {
			t.Error(err)
		}
		if _, _, err := s.Put(nil, make([]byte, MaxValue+1)); !errors.Is(err, ErrValueTooLarge) {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// filled returns a map with some keys.
func filled(n int) *index.Map {
	m := index.NewMap()
	for i := range n {
		_, _, _ = m.Put(fmt.Appendf(nil, "key %d", i), uint64(i)) // it is not too long
	}
	return m
}

// make makes a folder with an index, three logs and a base.
func makeFolder(t *testing.T, path string) (state string) {
	t.Helper()
	m := filled(20)
	s, err := Open(path, m, Config{size: 3000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, _, err := s.Put(fmt.Appendf(nil, "key %d", i%50), uint64(i)); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			for s.flushed() < Mark(i) {
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return text(m)
}

// flushed returns how many records are synced.
func (l *Log) flushed() Mark {
	done := make(chan struct{})
	l.mu.Lock()
	at := l.end
	l.mu.Unlock()
	l.whenSynced(at, func(error) { close(done) })
	tell(l.sync)
	<-done
	return at
}

// contents are the files of a folder.
func contents(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() == lockName {
			continue
		}
		b, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// newestLog returns the name of the last log.
func newestLog(files map[string]string) (log string) {
	for name := range files {
		if strings.HasPrefix(name, logPrefix) && (len(name) > len(log) || name > log) {
			log = name
		}
	}
	return log
}

// restore makes a folder with such files.
func restore(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	path = t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(path, name), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestBegin: a new folder begins with what the map has, which need not come in the log.
func TestBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for i := range 3 {
		m := index.NewMap()
		if i == 0 {
			m = filled(3000)
		}
		s, err := Open(path, m, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if text(m) != text(filled(3000)) {
			t.Errorf("it has %d keys", m.Len())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // the process was killed between the two files
			if err := os.Remove(filepath.Join(path, "log-1")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestInUse: a folder has one user.
func TestInUse(t *testing.T) {
	path := t.TempDir()
	s, err := Open(path, index.NewMap(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, index.NewMap(), Config{}); !errors.Is(err, ErrInUse) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForeign: what is not the folder of this index stays as it is, and the error says why.
func TestForeign(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	makeFolder(t, one)
	makeFolder(t, two)
	files, others := contents(t, one), contents(t, two)
	with := func(name, b string) map[string]string {
		c := map[string]string{name: b}
		for n, b := range files {
			if n != name {
				c[n] = b
			}
		}
		return c
	}
	newer := func(name string) string {
		b := []byte(files[name])
		b[8]++
		return string(b)
	}
	log := newestLog(files)
	for _, c := range []struct {
		what  string
		files map[string]string
		err   error
		text  string
	}{
		{"a file of a store", with("snapshot", ""), ErrForeign, `"snapshot"`},
		{"a number", with("log-01", ""), ErrForeign, "log-01"},
		{"a log of another index", with(log, others[log]), ErrForeign, "another index"},
		{"a newer log", with(log, newer(log)), ErrVersion, "its version is 2"},
		{"an empty log", with(log, ""), ErrDamaged, "0 bytes"},
		{"no log", map[string]string{"base-3": files["base-3"]}, ErrDamaged, "log-4 is missing"},
		{"a hole", with("log-1000", files[log]), ErrDamaged, "is missing"},
	} {
		path := restore(t, c.files)
		if _, err := Open(path, index.NewMap(), Config{}); !errors.Is(err, c.err) ||
			!strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := contents(t, path); fmt.Sprint(got) != fmt.Sprint(c.files) {
			t.Errorf("%s: the folder has changed", c.what)
		}
	}
	if _, err := Open(one, filled(1), Config{}); !errors.Is(err, ErrForeign) {
		t.Errorf("a map with keys: %v", err)
	}
	if _, err := OpenBytes(one, index.NewBytes(), Config{}); !errors.Is(err, ErrForeign) {
		t.Errorf("the other kind: %v", err)
	}
	if _, err := Open(filepath.Join(one, log), index.NewMap(), Config{}); !errors.Is(err, ErrForeign) {
		t.Errorf("a file: %v", err)
	}
	if got := contents(t, one); fmt.Sprint(got) != fmt.Sprint(files) {
		t.Error("the folder has changed")
	}
	if err := os.Mkdir(filepath.Join(one, "ro"), 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(one, "log-x", "\x00"), index.NewMap(), Config{})
	if _, ok := errors.AsType[*fs.PathError](err); !ok {
		t.Errorf("no folder: %v", err)
	}
}

// TestDamage changes each byte of a folder that was closed, and cuts each file but the last one
// everywhere. The index is whole, or it is refused by name, and then the folder is as it was.
func TestDamage(t *testing.T) {
	path := t.TempDir()
	want := makeFolder(t, path)
	files := contents(t, path)
	newest := newestLog(files)
	refused, whole := 0, 0
	try := func(what, name, b string) {
		d := newSimDisk()
		for n, was := range files {
			d.files[n] = &simFile{d: d, name: n, data: []byte(was)}
		}
		d.files[name].data = []byte(b)
		m := index.NewMap()
		s := numbers(m)
		err := s.open(d, Config{})
		switch {
		case err == nil:
			whole++
			if text(m) != want {
				t.Errorf("%s: it has\n%s, want\n%s", what, text(m), want)
			}
			_ = s.Close()
			return
		case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrVersion) ||
			!strings.Contains(err.Error(), name):
			t.Errorf("%s: %v", what, err)
		}
		refused++
		for n, was := range files {
			if got := d.files[n]; got == nil || n != name && string(got.data) != was {
				t.Errorf("%s: %s has changed", what, n)
			}
		}
		if len(d.files) != len(files) {
			t.Errorf("%s: %d files, want %d", what, len(d.files), len(files))
		}
	}
	for name, was := range files {
		for at := 0; at < len(was); at += stride() {
			b := []byte(was)
			b[at] ^= 1 << (at % 8)
			try(fmt.Sprintf("%s, byte %d of %d", name, at, len(was)), name, string(b))
			if name != newest {
				try(fmt.Sprintf("%s, cut at %d of %d", name, at, len(was)), name, was[:at])
			}
		}
	}
	if refused < whole*50 || whole < frameSize/stride() {
		t.Errorf("%d refused, %d whole", refused, whole)
	}
}

// TestDamageKilled changes each byte of a log that was synced when its process was killed. The last
// record is whole, too, or the folder is refused.
func TestDamageKilled(t *testing.T) {
	for _, policy := range []Policy{EverySecond, Always} {
		synctest.Test(t, func(t *testing.T) {
			d, m := newSimDisk(), index.NewMap()
			s := numbers(m)
			if err := s.open(d, Config{Sync: policy}); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(3) {
				if _, _, err := s.Put([]byte("key"), i); err != nil {
					t.Fatal(err)
				}
				<-time.After(2 * second)
			}
			image := d.killed()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			size := len(image.files["log-1"].data)
			for at := headSize; at < size-frameSize; at++ {
				d := image.killed()
				d.files["log-1"].data[at] ^= 1
				m := index.NewMap()
				s := numbers(m)
				if err := s.open(d, Config{}); !errors.Is(err, ErrDamaged) {
					t.Errorf("policy %d, byte %d of %d: %v", policy, at, size, err)
				}
			}
		})
	}
}

// FuzzRecover: whatever a folder has, it is refused or it is an index, which is the same the next
// time. Behind the header of a log come bytes as they are, or the payload of a frame.
func FuzzRecover(f *testing.F) {
	id := identity{kind: 1, index: 7, n: 1, role: logFile}
	payload := appendKey(appendKey(nil, Delete, []byte("b")), Put, []byte("a"))
	payload = append(payload, 1, 0, 0, 0, 0, 0, 0, 0)
	frame := id.seal(append(make([]byte, frameSize), payload...), headSize, 0, headSize)
	f.Add(false, false, payload)
	f.Add(false, true, payload)
	f.Add(true, false, frame)
	f.Add(true, false, append(id.head(), frame...))
	f.Fuzz(func(t *testing.T, raw, end bool, b []byte) {
		content := b
		if !raw {
			flags := uint32(0)
			if end {
				flags = last
			}
			b = id.seal(append(make([]byte, frameSize), b...), headSize, flags, headSize)
			content = append(id.head(), b...)
		}
		d := newSimDisk()
		d.files["log-1"] = &simFile{d: d, name: "log-1", data: content}
		var states []string
		for range 2 {
			m := index.NewMap()
			s := numbers(m)
			if err := s.open(d, Config{Sync: Always}); err != nil {
				if len(states) > 0 {
					t.Fatal(err)
				}
				return
			}
			states = append(states, text(m))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if states[0] != states[1] {
			t.Errorf("%q, and then %q", states[0], states[1])
		}
	})
}
