package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/snapshot"
)

var at = time.Unix(1000, 7)

// filled returns a map of n keys of several lengths, the empty one among them.
func filled(n int) *index.Map {
	m := index.NewMap()
	for i := range n {
		key := fmt.Appendf(nil, "%0*d", i%20, i)
		if i == 0 {
			key = nil
		}
		_, _, _ = m.Put(key, uint64(i)) // keys are not too long
	}
	return m
}

func same(t *testing.T, got, want *index.Map) {
	t.Helper()
	var a, b []string
	for k, v := range got.Ascend(nil) {
		a = append(a, fmt.Sprintf("%q %d", k, v))
	}
	for k, v := range want.Ascend(nil) {
		b = append(b, fmt.Sprintf("%q %d", k, v))
	}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%d keys, want %d", len(a), len(b))
	}
}

func TestSaveLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "index")
	for _, n := range []int{0, 1, 30_000, 10} {
		m := filled(n)
		if keys, err := snapshot.Save(name, m, at); err != nil || keys != uint64(m.Len()) {
			t.Fatalf("%d keys: %d, %v", n, keys, err)
		}
		got, when, err := snapshot.Load(name)
		if err != nil || !when.Equal(at) {
			t.Fatalf("%d keys: %v, %v", n, when, err)
		}
		same(t, got, m)
	}
	if files, err := os.ReadDir(filepath.Dir(name)); len(files) != 1 || err != nil {
		t.Errorf("%d files are left: %v", len(files), err)
	}
	if _, _, err := snapshot.Load(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestDamage cuts a snapshot at each byte, and changes each byte: none of it is taken.
func TestDamage(t *testing.T) {
	var b bytes.Buffer
	if _, err := snapshot.Write(&b, filled(40), at); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	for n := range whole {
		m, _, err := snapshot.Read(bytes.NewReader(whole[:n]))
		nothing := n == 0 && errors.Is(err, snapshot.ErrFormat)
		if m != nil || !errors.Is(err, snapshot.ErrCut) && !nothing {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
		bad := bytes.Clone(whole)
		bad[n] ^= 0x10
		m, _, err = snapshot.Read(bytes.NewReader(bad))
		named := errors.Is(err, snapshot.ErrDamaged) || errors.Is(err, snapshot.ErrFormat) ||
			errors.Is(err, snapshot.ErrCut)
		if m != nil || !named {
			t.Fatalf("byte %d of %d changed: %v", n, len(whole), err)
		}
	}
	m, _, err := snapshot.Read(bytes.NewReader(append(whole, 0)))
	if m != nil || !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("one byte more: %v", err)
	}
}

// TestWriteFails: the errors of writer and reader come through.
func TestWriteFails(t *testing.T) {
	if _, err := snapshot.Write(failing{}, filled(30_000), at); err != io.ErrShortBuffer {
		t.Errorf("write: %v", err)
	}
	if _, _, err := snapshot.Read(iotest.ErrReader(io.ErrNoProgress)); err == nil {
		t.Error("read: no error")
	}
	if _, err := snapshot.Save(filepath.Join(t.TempDir(), "no", "index"), filled(1), at); err == nil {
		t.Error("a folder that is not there")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortBuffer }

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	_, _ = snapshot.Write(&b, filled(20), at)
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, when, err := snapshot.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if _, err := snapshot.Write(&again, m, when); err != nil {
			t.Fatal(err)
		}
		if m2, _, err := snapshot.Read(&again); err != nil || m2.Len() != m.Len() {
			t.Errorf("read again: %v", err)
		}
	})
}
