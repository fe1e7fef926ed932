package cuckoo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/cuckoo"
)

// randomName returns a name of short components, of few letters, so that prefixes meet.
func randomName(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteByte('/')
		for range 1 + r.IntN(4) {
			b.WriteByte("abc"[r.IntN(3)])
		}
	}
	return b.String()
}

// TestNames: one by one and in a batch, names find the port of their longest prefix, by whole
// components.
func TestNames(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 30, 3000} {
		table, want := cuckoo.NewNames(size), map[string]uint32{}
		for i := range size {
			p := randomName(r)
			if err := table.Add(p, uint32(i)); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			want[p] = uint32(i)
		}
		if table.Len() != len(want) {
			t.Errorf("%d prefixes, want %d", table.Len(), len(want))
		}
		names := []cuckoo.Name{{}, {'/'}, {'/', '/', 'a'}, {'a'}}
		for range 2000 {
			var n cuckoo.Name
			copy(n[:], randomName(r)+randomName(r)[:r.IntN(3)%2])
			names = append(names, n)
		}
		for i := range 32 {
			full := cuckoo.Name{0: '/', 31: 'x'}
			for j := range full[1:31] {
				full[j+1] = "ab/"[(j*i)%3]
			}
			names = append(names, full)
		}
		ports, ok := make([]uint32, len(names)), make([]bool, len(names))
		table.FindBatch(names, ports, ok)
		for i := range names {
			port, there := longest(want, names[i])
			if p, found := table.Find(&names[i]); p != port || found != there || ports[i] != port ||
				ok[i] != there {
				t.Fatalf("%q: %d %v, in the batch %d %v, want %d %v",
					names[i], p, found, ports[i], ok[i], port, there)
			}
		}
	}
}

// longest looks for all prefixes of a name.
func longest(want map[string]uint32, n cuckoo.Name) (port uint32, ok bool) {
	text := strings.TrimRight(string(n[:]), "\x00")
	for at := len(text); at > 0; at = strings.LastIndexByte(text[:at], '/') {
		if port, ok := want[text[:at]]; ok {
			return port, true
		}
	}
	return 0, false
}

// TestBadPrefixes: a prefix is one to 32 bytes of whole components, and a table that is full says
// so and keeps what it has.
func TestBadPrefixes(t *testing.T) {
	table := cuckoo.NewNames(10)
	for _, p := range []string{"", "/", "a", "/a/", "/a\x00b", "/" + strings.Repeat("a", 32)} {
		if err := table.Add(p, 1); !errors.Is(err, cuckoo.ErrName) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if err := table.Add("/"+strings.Repeat("a", 31), 7); err != nil {
		t.Error(err)
	}
	n := 0
	for ; n < 1000; n++ {
		if err := table.Add(fmt.Sprint("/", n), uint32(n)); errors.Is(err, cuckoo.ErrFull) {
			break
		}
	}
	if n == 1000 {
		t.Error("a table for ten prefixes took a thousand")
	}
	for i := range n {
		var name cuckoo.Name
		copy(name[:], fmt.Sprint("/", i, "/x"))
		if port, ok := table.Find(&name); !ok || port != uint32(i) {
			t.Errorf("%s: %d %v", name, port, ok)
		}
	}
}
