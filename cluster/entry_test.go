package cluster

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestDecode: entries that can be read, and the named errors of others.
func TestDecode(t *testing.T) {
	const head = `{"Op":0,"Addr":"h:1","Metadata":`
	const ours = head + `{"erpc":1,"instance":"i",`
	for _, tt := range []struct {
		value string
		want  error
	}{
		{ours + `"zone":"a","from the future":[1]}}`, nil},
		{head + `null}`, nil},
		{`{"Op":0,"Addr":"h:1"}`, nil},
		{head + `"a text of somebody else"}`, nil},
		{head + `{"erpc":2,"zone":{"of":"another form"}}}`, ErrEntryVersion},
		{head + `{"erpc":0}}`, ErrEntryVersion},
		{head + `{"erpc":"1"}}`, ErrEntryVersion},
		{head + `{"erpc":99999999999999999999}}`, ErrEntryVersion},
		{head + `{"erpc":1,"zone":"a"}}`, ErrEntry}, // of no instance
		{ours + `"zone":7}}`, ErrEntry},
		{ours + `"zone":"a/b"}}`, ErrEntry},
		{ours + `"number":-1}}`, ErrEntry},
		{ours + `"load":-1}}`, ErrEntry},
		{ours + `"transports":{"udp":"h"}}}`, ErrEntry},
		{ours + `"transports":{"":"h:1"}}}`, ErrEntry},
		{`{"Op":0,"Addr":":1"}`, ErrEntry},
		{`{"Op":0,"Addr":"h:0"}`, ErrEntry},
		{`{"Op":0,"Addr":"h:x"}`, ErrEntry},
		{`{"Op":0,"Addr":"a/b:1"}`, ErrEntry},
		{`{"Op":0}`, ErrEntry},
		{`10.0.0.1:31850`, ErrEntry},
		{``, ErrEntry},
		{head + `"` + strings.Repeat("x", maxEntry) + `"}`, ErrEntry},
	} {
		if _, err := Decode([]byte(tt.value)); !errors.Is(err, tt.want) {
			t.Errorf("%.80s: %v, want %v", tt.value, err, tt.want)
		}
	}
}

// TestEncode: nothing is written that nobody may read.
func TestEncode(t *testing.T) {
	e := Entry{Addr: "h:1", Instance: "i", Name: strings.Repeat("x", maxEntry)}
	if _, err := e.Encode(); !errors.Is(err, ErrEntry) {
		t.Errorf("with a name of %d bytes: %v", maxEntry, err)
	}
}

// FuzzDecode: no value makes it panic, and what it reads it writes as it was.
func FuzzDecode(f *testing.F) {
	full := Entry{Addr: "h:1", Name: "n", Instance: "i", Identity: "id", Zone: "z", Number: 3,
		Load: 0.5, Draining: true, Cluster: "c", Transports: map[string]string{UDP: "h:1", GRPC: "h:2"}}
	value, err := full.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	f.Add([]byte(`{"Op":0,"Addr":"h:1","Metadata":null}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := Decode(value)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil {
			if len(value) < maxEntry/8 { // it may be longer, with what JSON writes as \u003c
				t.Fatal(err)
			}
			return
		}
		if len(e.Transports) == 0 {
			e.Transports = nil
		}
		if d, err := Decode(again); err == nil && !reflect.DeepEqual(d, e) {
			t.Fatalf("%+v, was %+v", d, e)
		}
	})
}
