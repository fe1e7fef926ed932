package ahocorasick_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/ahocorasick"
)

func text(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ab\x00\xff"[r.IntN(4)]
	}
	return b
}

// hit is a place where a pattern ends.
type hit struct{ end, pattern int }

// TestScan compares with a search for each pattern at each place.
func TestScan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lists := make([][][]byte, 4) // the last automaton has no pattern
	for i := range lists[:3] {
		for range 30 {
			lists[i] = append(lists[i], text(r, 1+r.IntN(6)))
		}
	}
	set, err := ahocorasick.New(lists)
	if err != nil {
		t.Fatal(err)
	}
	var packets []ahocorasick.Packet
	var scratch []int32
	for i := range 300 {
		packets = append(packets, ahocorasick.Packet{DFA: r.IntN(4), Data: text(r, r.IntN(60))})
		if i%50 != 0 {
			continue
		}
		want, plain, batch := make([][]hit, i+1), make([][]hit, i+1), make([][]hit, i+1)
		for p, pk := range packets {
			for n, pattern := range lists[pk.DFA] {
				for end := len(pattern); end <= len(pk.Data); end++ {
					if bytes.Equal(pk.Data[end-len(pattern):end], pattern) {
						want[p] = append(want[p], hit{end, n})
					}
				}
			}
		}
		set.Scan(packets, func(p, n, end int) { plain[p] = append(plain[p], hit{end, n}) })
		scratch = set.ScanBatch(packets, scratch, func(p, n, end int) {
			batch[p] = append(batch[p], hit{end, n})
		})
		for p := range packets {
			if !slices.Equal(plain[p], batch[p]) {
				t.Fatalf("packet %d: %v, in the batch %v", p, plain[p], batch[p])
			}
			order := func(a, b hit) int { return (a.end-b.end)*1000 + a.pattern - b.pattern }
			slices.SortFunc(want[p], order)
			slices.SortFunc(plain[p], order)
			if !slices.Equal(plain[p], want[p]) {
				t.Fatalf("packet %d: %v, want %v", p, plain[p], want[p])
			}
		}
	}
	set.ScanBatch(nil, nil, nil)
	if set.States() < 10 {
		t.Errorf("%d states", set.States())
	}
}

func TestEmptyPattern(t *testing.T) {
	if _, err := ahocorasick.New([][][]byte{{{}}}); !errors.Is(err, ahocorasick.ErrPattern) {
		t.Errorf("%v", err)
	}
}
