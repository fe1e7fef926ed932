package message_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

var keyed = []uint8{message.Get, message.Delete, message.Increment, message.Touch}

// TestRequests: requests come back as they were, and no piece of one, nor a longer one with a key
// too long, is taken for it.
func TestRequests(t *testing.T) {
	want := message.Keyed{Hash: 1, Key: []byte("key")}
	for _, typ := range keyed {
		k := want
		switch typ {
		case message.Delete:
			k.Version = 7
		case message.Increment:
			k.Delta, k.Down = 9, true
		case message.Touch:
			k.Life = 11
		}
		b, err := k.Append(nil, typ)
		got, err2 := message.ParseKeyed(b, typ)
		if err != nil || err2 != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("type %d: %+v, %v, %v", typ, got, err, err2)
		}
		for n := range len(b) - 2 { // the last one has no key
			if _, err := message.ParseKeyed(b[:n], typ); err == nil {
				t.Errorf("type %d: %d of %d bytes", typ, n, len(b))
			}
		}
		if _, err := message.ParseKeyed(append(b, make([]byte, 253)...), typ); err != mica.ErrKey {
			t.Errorf("type %d: a long key: %v", typ, err)
		}
		k.Key = make([]byte, 256)
		if _, err := k.Append(nil, typ); err != mica.ErrKey {
			t.Error(err)
		}
	}
	w := message.Item{Hash: 1, Version: 2, Life: 3, Flags: 4, If: mica.IfPresent, Key: []byte("k"),
		Value: []byte("value")}
	b, err := w.Append(nil)
	got, err2 := message.ParseWrite(b)
	if err != nil || err2 != nil || !reflect.DeepEqual(got, w) || len(b) != w.Size() {
		t.Errorf("%+v, %v, %v", got, err, err2)
	}
	for n := range 27 {
		if _, err := message.ParseWrite(b[:n]); !errors.Is(err, message.ErrRequest) {
			t.Errorf("a write of %d bytes: %v", n, err)
		}
	}
	if _, err := message.ParseWrite(append(b, make([]byte, mica.MaxValue)...)); err != mica.ErrValue {
		t.Error(err)
	}
	w.Value = make([]byte, mica.MaxValue+1)
	if _, err := w.Append(nil); err != mica.ErrValue {
		t.Error(err)
	}
}

// TestMulti: keys and entries of multi-gets.
func TestMulti(t *testing.T) {
	var b []byte
	for i := range message.MaxMulti {
		b, _ = message.AppendKey(b, uint64(i), []byte{byte(i)})
	}
	var keys [message.MaxMulti][]byte
	var hashes [message.MaxMulti]uint64
	n, err := message.ParseKeys(b, &keys, &hashes)
	if n != message.MaxMulti || err != nil || hashes[63] != 63 || keys[63][0] != 63 {
		t.Errorf("%d, %v", n, err)
	}
	b, _ = message.AppendKey(b, 1, []byte("one more"))
	for _, bad := range [][]byte{b, b[:9], b[:15], append(make([]byte, 8), 0)} {
		if n, err := message.ParseKeys(bad, &keys, &hashes); n != 0 || err == nil {
			t.Errorf("%d bytes: %d keys, %v", len(bad), n, err)
		}
	}
	found := mica.Lookup{Found: true, Item: mica.Item{Value: []byte("v"), Version: 5, Flags: 6}}
	b = message.AppendEntry([]byte{0}, &found)
	b = append(message.AppendEntry(b, &mica.Lookup{}), byte(message.Later))
	if len(b) != 2+message.EntrySize(&found)+message.EntrySize(&mica.Lookup{}) {
		t.Errorf("%d bytes", len(b))
	}
	rest, err := message.OpenEntries(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []message.Status{message.OK, message.NotFound, message.Later} {
		var v message.Value
		var s message.Status
		v, s, rest, err = message.NextEntry(rest)
		right := string(v.Value) == "v" && v.Version == 5 && v.Flags == 6
		if s != want || err != nil || right != (s == message.OK) {
			t.Errorf("%+v, %d, %v", v, s, err)
		}
	}
	if _, _, _, err := message.NextEntry(rest); !errors.Is(err, message.ErrResponse) {
		t.Error(err)
	}
}

// TestResponses: each error of a partition travels, and comes back as itself.
func TestResponses(t *testing.T) {
	for _, err := range []error{mica.ErrNotFound, mica.ErrExists, mica.ErrVersion, mica.ErrTooLarge,
		mica.ErrNumber, mica.ErrFullItems, mica.ErrFullIndex} {
		s, ok := message.StatusOf(err)
		_, got := message.ParseFound([]byte{byte(s)})
		if !ok || got != err || message.ParseNumbers([]byte{byte(s)}, nil) != err {
			t.Errorf("%v: status %d, %v", err, s, got)
		}
	}
	if _, ok := message.StatusOf(mica.ErrKey); ok {
		t.Error("an error without status")
	}
	b := make([]byte, message.FoundHead)
	message.PutFound(b, &mica.Item{Version: 3, Flags: 4})
	v, err := message.ParseFound(append(b, "value"...))
	if err != nil || string(v.Value) != "value" || v.Version != 3 || v.Flags != 4 {
		t.Errorf("%+v, %v", v, err)
	}
	numbers := make([]uint64, 2)
	err = message.ParseNumbers(message.AppendNumbers(nil, 5, 6), numbers)
	if err != nil || numbers[0] != 5 || numbers[1] != 6 {
		t.Error(numbers, err)
	}
	st := mica.Stats{Items: 1, Extra: 2, Huge: true}
	if got, err := message.ParseStats(message.AppendStats(nil, st)); got != st || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	l := message.Layout{Partition: 1, Mode: mica.Store,
		Addrs: []string{"a:1", strings.Repeat("b", 255)}}
	got, err := message.ParseLayout(l.Append(nil))
	if err != nil || !reflect.DeepEqual(got, l) {
		t.Errorf("%+v, %v", got, err)
	}
	long := l.Append(nil)
	for _, bad := range [][]byte{nil, {0}, {1, 1}, {7}, {200}, long[:len(long)-1], append(long, 1),
		{0, 1, 0, 0, 0, 0, 0}} {
		_, e1 := message.ParseFound(bad)
		_, e2 := message.ParseStats(bad)
		_, e3 := message.ParseLayout(bad)
		e4 := message.ParseNumbers(bad, numbers)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, message.ErrResponse) && (err != e1 || len(bad) < message.FoundHead) {
				t.Errorf("%v: %v", bad, err)
			}
		}
	}
}

// FuzzMessage: whatever comes is refused by name, or comes back from what was read of it.
func FuzzMessage(f *testing.F) {
	w := message.Item{Hash: 1, Key: []byte("k"), Value: []byte("value")}
	b, _ := w.Append(nil)
	f.Add(b)
	b, _ = message.AppendKey(nil, 1, []byte("key"))
	f.Add(b)
	f.Add((&message.Layout{Addrs: []string{"a"}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(got []byte, err error) {
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%x, %v, from %x", got, err, b)
			}
		}
		for _, typ := range keyed {
			if k, err := message.ParseKeyed(b, typ); err == nil {
				same(k.Append(nil, typ))
			}
		}
		if w, err := message.ParseWrite(b); err == nil {
			same(w.Append(nil))
		}
		var keys [message.MaxMulti][]byte
		var hashes [message.MaxMulti]uint64
		if n, err := message.ParseKeys(b, &keys, &hashes); err == nil {
			var got []byte
			for i, key := range keys[:n] {
				got, err = message.AppendKey(got, hashes[i], key)
			}
			same(got, err)
		}
		if l, err := message.ParseLayout(b); err == nil {
			same(l.Append(nil), nil)
		}
		_, _ = message.ParseFound(b)
		_, _ = message.ParseStats(b)
		_ = message.ParseNumbers(b, make([]uint64, 2))
		for rest := b; len(rest) > 0; {
			var err error
			if _, _, rest, err = message.NextEntry(rest); err != nil {
				break
			}
		}
	})
}
