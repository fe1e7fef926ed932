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
	for _, tt := range []struct {
		value string
		want  error
	}{
		{head + `{"erpc":1,"zone":"a","from the future":[1]}}`, nil},
		{head + `null}`, nil},
		{`{"Op":0,"Addr":"h:1"}`, nil},
		{head + `"a text of somebody else"}`, nil},
		{head + `{"erpc":2,"zone":{"of":"another form"}}}`, ErrEntryVersion},
		{head + `{"erpc":0}}`, ErrEntryVersion},
		{head + `{"erpc":1,"zone":7}}`, ErrEntry},
		{head + `{"erpc":1,"zone":"a/b"}}`, ErrEntry},
		{head + `{"erpc":1,"number":-1}}`, ErrEntry},
		{head + `{"erpc":1,"load":-1}}`, ErrEntry},
		{head + `{"erpc":1,"transports":{"udp":"h"}}}`, ErrEntry},
		{head + `{"erpc":1,"transports":{"":"h:1"}}}`, ErrEntry},
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
			t.Fatal(err)
		}
		if len(e.Transports) == 0 {
			e.Transports = nil
		}
		if d, err := Decode(again); err == nil && !reflect.DeepEqual(d, e) {
			t.Fatalf("%+v, was %+v", d, e)
		}
	})
}
