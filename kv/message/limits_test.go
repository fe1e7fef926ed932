package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// heads are the sizes of requests without their keys.
var heads = map[uint8]int{message.Get: 8, message.Delete: 16, message.Increment: 17,
	message.Touch: 12}

// TestKeyLimits: keys of 1 to 255 bytes fit every request, and Size says what it takes.
func TestKeyLimits(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256} {
		key := bytes.Repeat([]byte("k"), n)
		var want error
		if n == 0 || n == 256 {
			want = mica.ErrKey
		}
		for _, typ := range keyed {
			k := message.Keyed{Hash: 1, Key: key}
			b, err := k.Append(nil, typ)
			if err != want || k.Size(typ) != heads[typ]+n || err == nil && len(b) != k.Size(typ) {
				t.Errorf("type %d, key of %d: %d bytes, Size %d, %v", typ, n, len(b), k.Size(typ), err)
			}
			if _, err := message.ParseKeyed(make([]byte, heads[typ]+n), typ); err != want {
				t.Errorf("type %d, key of %d: %v, want %v", typ, n, err, want)
			}
			_, err = message.ParseKeyed(make([]byte, heads[typ]-1), typ)
			if !errors.Is(err, message.ErrRequest) {
				t.Errorf("type %d without a key and a byte: %v", typ, err)
			}
		}
		w := message.Item{Key: key}
		if b, err := w.Append(nil); err != want || err == nil && len(b) != w.Size() {
			t.Errorf("a write, key of %d: %d bytes, %v", n, len(b), err)
		}
		b, err := message.AppendKey(nil, 1, key)
		if err != want || err == nil && len(b) != message.KeySize(key) {
			t.Errorf("a key of %d: %d bytes, %v", n, len(b), err)
		}
		if err == nil {
			if got, rest := message.NextKey(append(b, "rest"...)); !bytes.Equal(got, key) ||
				string(rest) != "rest" {
				t.Errorf("a key of %d: %q, %q", n, got, rest)
			}
		}
	}
	b := make([]byte, 18)
	for down, want := range []error{nil, nil, message.ErrRequest} {
		b[16] = byte(down)
		k, err := message.ParseKeyed(b, message.Increment)
		if !errors.Is(err, want) || err == nil && k.Down != (down == 1) {
			t.Errorf("direction %d: %+v, %v", down, k, err)
		}
	}
}

// TestWriteLimits: a write of each size on both sides of what it may be.
func TestWriteLimits(t *testing.T) {
	for n, want := range map[int]error{0: nil, 1: nil, mica.MaxValue: nil,
		mica.MaxValue + 1: mica.ErrValue} {
		w := message.Item{Key: []byte("k"), Value: make([]byte, n)}
		b, err := w.Append(nil)
		if err != want || err == nil && len(b) != 27+n {
			t.Errorf("a value of %d: %d bytes, %v", n, len(b), err)
		}
		raw := make([]byte, 27+n)
		raw[25] = 1
		if got, err := message.ParseWrite(raw); err != want || err == nil && len(got.Value) != n {
			t.Errorf("a value of %d: %d bytes, %v", n, len(got.Value), err)
		}
	}
	for _, row := range []struct {
		size, key int
		condition mica.Condition
		want      error
	}{{25, 0, 0, message.ErrRequest}, {26, 0, 0, mica.ErrKey}, {26, 1, 0, message.ErrRequest},
		{27, 1, 0, nil}, {281, 255, 0, nil}, {280, 255, 0, message.ErrRequest},
		{27, 1, mica.IfVersion, nil}, {27, 1, mica.IfVersion + 1, message.ErrRequest}} {
		b := make([]byte, 281)
		b[24], b[25] = byte(row.condition), byte(row.key)
		if _, err := message.ParseWrite(b[:row.size]); !errors.Is(err, row.want) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// TestMultiLimits: as many keys as a multi-get can have, and its entries at their limits.
func TestMultiLimits(t *testing.T) {
	var keys [message.MaxMulti][]byte
	var hashes [message.MaxMulti]uint64
	for n, want := range map[int]error{0: nil, 1: nil, 64: nil, 65: message.ErrRequest} {
		var b []byte
		for i := range n {
			b, _ = message.AppendKey(b, uint64(i), []byte("key"))
		}
		got, err := message.ParseKeys(b, &keys, &hashes)
		if !errors.Is(err, want) || err == nil && got != n {
			t.Errorf("%d keys: %d, %v", n, got, err)
		}
	}
	long := make([]byte, 17+mica.MaxValue+1)
	size := func(n int) []byte {
		long[13], long[14], long[15] = byte(n), byte(n>>8), byte(n>>16)
		return long[:17+n]
	}
	for n, fits := range map[int]bool{0: true, 9: true, mica.MaxValue: true,
		mica.MaxValue + 1: false} {
		v, s, rest, err := message.NextEntry(size(n))
		if (err == nil) != fits || fits && (s != message.OK || len(v.Value) != n || len(rest) != 0) {
			t.Errorf("an entry of %d: %d bytes, %v", n, len(v.Value), err)
		}
		if _, _, _, err := message.NextEntry(size(n)[:16+n]); !errors.Is(err, message.ErrResponse) {
			t.Errorf("an entry of %d without its last byte: %v", n, err)
		}
	}
	for _, b := range [][]byte{{byte(message.Later) + 1}, {byte(message.Exists)}} {
		if _, _, _, err := message.NextEntry(b); !errors.Is(err, message.ErrResponse) {
			t.Errorf("status %d: %v", b[0], err)
		}
	}
}

// TestFoundLimits: responses to Get at the limits of a value.
func TestFoundLimits(t *testing.T) {
	long := make([]byte, message.FoundHead+mica.MaxValue+1)
	for n, fits := range map[int]bool{-1: false, 0: true, 1: true, mica.MaxValue: true,
		mica.MaxValue + 1: false} {
		v, err := message.ParseFound(long[:message.FoundHead+n])
		if (err == nil) != fits || err == nil && len(v.Value) != n ||
			err != nil && !errors.Is(err, message.ErrResponse) {
			t.Errorf("a value of %d: %d bytes, %v", n, len(v.Value), err)
		}
	}
	for n := range 20 {
		err := message.ParseNumbers(make([]byte, n), make([]uint64, 2))
		if (err == nil) != (n == 17) || err != nil && !errors.Is(err, message.ErrResponse) {
			t.Errorf("two numbers in %d bytes: %v", n, err)
		}
	}
	for _, status := range []byte{byte(message.Later), 200} {
		if _, err := message.ParseFound([]byte{status}); !errors.Is(err, message.ErrResponse) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// TestStatsTravel: each counter comes back as itself, and no other size is taken for a response.
func TestStatsTravel(t *testing.T) {
	for _, huge := range []bool{false, true} {
		st := mica.Stats{Huge: huge}
		v := reflect.ValueOf(&st).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Uint64 {
				f.SetUint(1<<56 + uint64(i) + 2)
			}
		}
		b := message.AppendStats(nil, st)
		if got, err := message.ParseStats(b); got != st || err != nil {
			t.Errorf("%+v, %v, want %+v", got, err, st)
		}
		for n := range len(b) {
			if _, err := message.ParseStats(b[:n]); !errors.Is(err, message.ErrResponse) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := message.ParseStats(append(b, 0)); !errors.Is(err, message.ErrResponse) {
			t.Errorf("a byte more: %v", err)
		}
	}
}

// TestLayoutLimits: layouts at the limits of their numbers.
func TestLayoutLimits(t *testing.T) {
	for _, row := range []struct {
		number, of int
		mode       mica.Mode
		fits       bool
	}{{0, 1, mica.Cache, true}, {0, message.MaxLayout, mica.Store, true},
		{message.MaxLayout - 1, message.MaxLayout, mica.Store, true},
		{0, message.MaxLayout + 1, mica.Store, false}, {3, 3, mica.Cache, false},
		{2, 3, mica.Cache, true}, {0, 1, mica.Store + 1, false}} {
		l := message.Layout{Partition: row.number, Mode: row.mode}
		for i := range row.of {
			l.Addrs = append(l.Addrs, strings.Repeat("a", i%256))
		}
		b := l.Append(nil)
		got, err := message.ParseLayout(b)
		if (err == nil) != row.fits || err == nil && fmt.Sprint(got) != fmt.Sprint(l) {
			t.Errorf("%+v: %v", row, err)
		}
		for n := range min(len(b), 30) {
			if _, err := message.ParseLayout(b[:n]); !errors.Is(err, message.ErrResponse) {
				t.Errorf("%+v: %d bytes: %v", row, n, err)
			}
		}
	}
}
