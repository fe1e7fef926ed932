package kv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// saved returns a snapshot as a whole.
func saved(s *Store) []byte {
	b, err := io.ReadAll(s.Save(nil))
	if err != nil {
		panic(err)
	}
	return b
}

// TestBytesOfCommit4085675: snapshots have the bytes that they had when they were made as a whole,
// of both forms.
func TestBytesOfCommit4085675(t *testing.T) {
	s := NewStore()
	s.seed = seed{1, 3}
	with := full(t, 100, 0)
	s.sessions = with.sessions
	for i := range 5000 {
		c := Command{Op: Put, Session: uint64(i%50 + 1), Seq: uint64(i + 1), Key: key(t, fmt.Sprint(i)),
			Value: value(t, fmt.Sprint("value", i))}
		s.Apply(0, c.Append(nil))
	}
	for _, want := range []string{"4b54f010cac0b284f6b859ea33db590dc8edd70b59d8fcf3f1d9538fc66bff85",
		"6c23384fb7d75fe3565927efce3883edfe2aa5f70dba105efec301c144bc53b1"} {
		b := append([]byte("head"), saved(s)...)
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != want {
			t.Errorf("form %d: %s, want %s", b[8], got, want)
		}
		s.Apply(0, (&Command{Op: Raise, Format: 1}).Append(nil))
	}
}

// TestPieces: a snapshot is the same in pieces of any size, as long as it says, and read from
// pieces of any size. It holds no more than a shard.
func TestPieces(t *testing.T) {
	s := full(t, 100, 5000)
	want, data := s.Digest(), saved(s)
	for _, n := range []int{1, 7, 500, 4096, 1 << 20} {
		v := s.Save([]byte("head"))
		l := NewLoader(v.Size() - 4)
		var whole []byte
		for p := make([]byte, n); ; {
			c, err := v.Read(p)
			if c < n && uint64(len(whole)+c) < v.Size() || len(v.was[0].slots) > 0 {
				t.Fatalf("%d bytes of %d, %d before", c, n, len(whole))
			}
			if v.next > 2 && cap(v.buf) > 100*128+256 {
				t.Fatalf("%d bytes are held", cap(v.buf))
			}
			if err == io.EOF {
				break
			}
			part := p[:c]
			if had := len(whole); had < 4 {
				part = part[min(4-had, c):]
			}
			if _, err := l.Write(part); err != nil {
				t.Fatal(err)
			}
			whole = append(whole, p[:c]...)
		}
		if s.saver != nil || v.store != nil {
			t.Error("a snapshot that is out is still kept up")
		}
		if uint64(len(whole)) != v.Size() || string(whole[:4]) != "head" ||
			!bytes.Equal(whole[4:], data) {
			t.Errorf("pieces of %d: %d bytes, want %d, %d", n, len(whole), v.Size(), 4+len(data))
		}
		if got, err := l.Store(); err != nil || got.Digest() != want || got.bytes != s.bytes {
			t.Errorf("pieces of %d: %v", n, err)
		}
	}
}

// random changes one of so many keys at random.
func random(t *testing.T, s *Store, r *rand.Rand, seq *uint64, keys int) {
	*seq++
	c := Command{Op: Put, Session: 1, Seq: *seq, Key: key(t, fmt.Sprint(r.IntN(keys))),
		Value: value(t, fmt.Sprint(*seq))}
	if r.IntN(3) == 0 {
		c.Op, c.Value = Delete, Value{}
	}
	s.Apply(1, c.Append(nil))
}

// TestSnapshotMeanwhile: a snapshot is the store as it was when it began, and as long as it said,
// whatever changes while it is read: each key is written, removed and made again many times, and
// sessions come and go. Nothing
// of a shard that is out is noted.
func TestSnapshotMeanwhile(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, seq := NewStore(), uint64(0)
		s.Apply(1, (&Command{Op: Open}).Append(nil))
		for range 5000 {
			random(t, s, r, &seq, 3000)
		}
		want := s.Digest()
		v := s.Save(nil)
		var data []byte
		p := make([]byte, 100+r.IntN(1000))
		for {
			for range 1 + r.IntN(300) {
				random(t, s, r, &seq, 3000+int(seed)*1000)
			}
			s.Apply(seq+100, (&Command{Op: Open}).Append(nil))
			s.Apply(1, (&Command{Op: Clock, Seq: 1000}).Append(nil))
			n, err := v.Read(p)
			for i := range min(v.next, numShards) {
				if v.was[i].slots != nil {
					t.Fatalf("shard %d is out, and items of it are noted", i)
				}
			}
			data = append(data, p[:n]...)
			if err != nil {
				break
			}
		}
		got, err := Load(data)
		if err != nil || uint64(len(data)) != v.Size() || got.Digest() != want || want == s.Digest() {
			t.Fatalf("seed %d: %v, %d bytes of %d", seed, err, len(data), v.Size())
		}
		if again, err := Load(saved(s)); err != nil || again.Digest() != s.Digest() ||
			again.bytes != s.bytes {
			t.Fatalf("seed %d: the store after that: %v", seed, err)
		}
	}
}

// TestNoted: what is noted is bounded by the keys that were and that are there: keys that come and
// go while a snapshot is read leave nothing behind.
func TestNoted(t *testing.T) {
	s := full(t, 2, 100)
	want := s.Digest()
	v := s.Save(nil)
	for i := range uint64(20_000) {
		c := Command{Op: Put, Session: 2, Seq: 2*i + 1, Key: key(t, fmt.Sprint("x", i))}
		s.Apply(1, c.Append(nil))
		c.Op, c.Seq = Delete, 2*i+2
		s.Apply(1, c.Append(nil))
	}
	noted := 0
	for i := range v.was {
		noted += v.was[i].used
	}
	if noted > 100 {
		t.Errorf("%d items are noted", noted)
	}
	b, _ := io.ReadAll(v)
	if got, err := Load(b); err != nil || got.Digest() != want {
		t.Errorf("%v", err)
	}
}

// TestEnd: a snapshot that is ended, or followed by another one, gives out no more, and the store
// notes nothing for it.
func TestEnd(t *testing.T) {
	s := full(t, 2, 3000)
	first := s.Save(nil)
	second := s.Save(nil)
	p := make([]byte, 10_000)
	for _, v := range []*Saver{first, second} {
		v.End()
		for err := error(nil); !errors.Is(err, ErrEnded); {
			if _, err = v.Read(p); err == io.EOF {
				t.Fatal("a snapshot that was ended has an end")
			}
		}
	}
	if s.saver != nil {
		t.Error("the store notes what changes")
	}
	third := s.Save(nil)
	second.End()
	if b, err := io.ReadAll(third); err != nil || uint64(len(b)) != third.Size() {
		t.Errorf("one that goes on: %d bytes, %v", len(b), err)
	}
}

// TestDamage: each bit that is another one, each cut and each byte too much is noticed, in pieces
// of any size.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	data := saved(full(t, 20, 500))
	load := func(b []byte, says int) error {
		l := NewLoader(uint64(says))
		for len(b) > 0 {
			n := min(len(b), 1+r.IntN(300))
			if _, err := l.Write(b[:n]); err != nil {
				if _, again := l.Write(b[:0]); again == nil {
					t.Error("it is read on after damage")
				}
				return err
			}
			b = b[n:]
		}
		_, err := l.Store()
		return err
	}
	for range 500 {
		bad := bytes.Clone(data)
		bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		cut := r.IntN(len(data))
		for name, err := range map[string]error{"a bit": load(bad, len(bad)),
			"a cut": load(data[:cut], len(data)), "a short one": load(data[:cut], cut),
			"more": load(append(bad[:0:0], append(data, 1)...), len(data)),
			"long": load(data, len(data)+1)} {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("%s, at %d: %v", name, cut, err)
			}
		}
	}
	if err := load(data, len(data)); err != nil {
		t.Error(err)
	}
}

// TestChecksumPlace: a snapshot ends with its checksum.
func TestChecksumPlace(t *testing.T) {
	for _, c := range []struct {
		size, n, used int
	}{{50, 4, 4}, {51, 4, bad}, {50, 3, bad}, {51, 3, short}, {50, 5, bad}} {
		l := &Loader{size: uint64(c.size), got: 50}
		if used := l.item(make([]byte, c.n)); used != c.used {
			t.Errorf("%+v: %d", c, used)
		}
	}
}

// TestLoaderBounds: a snapshot of another form, or that promises more than it has room for, is
// refused with its header; and what a true header makes room for grows with what has come.
func TestLoaderBounds(t *testing.T) {
	data := saved(NewStore())
	set := func(at int, v uint64) []byte {
		b := append(bytes.Clone(data), make([]byte, 100)...)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	for _, c := range []struct {
		b  []byte
		ok bool
	}{{set(8, MaxSessions), true}, {set(8, MaxSessions+1), false},
		{set(16, 50), true}, {set(16, 51), false}, {set(16, 1<<63), false},
		{set(4, snapTimes), true}, {set(4, 4), false}, {set(4, 0), false},
		{set(0, 7), false}} {
		l := NewLoader(uint64(len(c.b)))
		if _, err := l.Write(c.b[:snapHeader+8]); (err == nil) != c.ok {
			t.Errorf("%x: %v", c.b[:snapHeader], err)
		}
	}
	l := NewLoader(1 << 50)
	head := set(16, 1<<40)[:snapHeader+8]
	for _, b := range [][]byte{head, {1, 0, 'a'}, {1, 0, 'b'}, {2, 0, 'a', 'b'}} {
		if _, err := l.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	slots := 0
	for i := range l.store.shards {
		slots += len(l.store.shards[i].slots)
	}
	if slots == 0 || slots > 3*leastSlots {
		t.Errorf("three keys have come, and there is room for %d", slots)
	}
}
