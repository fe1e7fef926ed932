package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// fleet makes servers with the numbers from 1 on.
func fleet(n int) (list []Entry) {
	for i := range n {
		list = append(list, Entry{Addr: fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), Number: i + 1})
	}
	return list
}

// subsets returns who has whom: for each client the addresses of its servers.
func subsets(t *testing.T, servers []Entry, clients, k int) (of []map[string]bool) {
	t.Helper()
	ring := ringOf(servers)
	for c := range clients {
		have := map[string]bool{}
		for _, e := range ring.take(uint64(c), k) {
			have[e.Addr] = true
		}
		if len(have) != min(k, len(servers)) {
			t.Fatalf("client %d of %d has %d of %d servers, want %d", c, clients, len(have),
				len(servers), k)
		}
		of = append(of, have)
	}
	return of
}

// even checks that each server has between 0.8 and 1.2 of its share of clients.
func even(t *testing.T, what string, servers []Entry, of []map[string]bool, k int) {
	t.Helper()
	if least, most := spread(servers, of, k); least < 0.8 || most > 1.2 {
		t.Errorf("%s: %d servers, %d clients, %d each: between %.2f and %.2f of the share", what,
			len(servers), len(of), k, least, most)
	}
}

// spread returns the least and the largest number of clients that a server has, in shares.
func spread(servers []Entry, of []map[string]bool, k int) (least, most float64) {
	load := map[string]int{}
	for _, have := range of {
		for addr := range have {
			load[addr]++
		}
	}
	share := float64(len(of)*k) / float64(len(servers))
	least = math.Inf(1)
	for _, e := range servers {
		least = min(least, float64(load[e.Addr])/share)
		most = max(most, float64(load[e.Addr])/share)
	}
	return least, most
}

// TestSubsets: every client has k servers, and every server between 0.8 and 1.2 of its share of
// clients, also after a server has gone or come; that changes one server of those clients alone
// that have it.
func TestSubsets(t *testing.T) {
	random := rand.New(rand.NewPCG(49, 1))
	for _, size := range [][3]int{{1000, 1000, 20}, {1000, 1000, 50}, {700, 1000, 20}, {100, 1000, 10},
		{1000, 700, 32}, {30, 1000, 10}, {1024, 1024, 32}, {513, 3000, 20}} {
		servers := fleet(size[0])
		clients, k := size[1], size[2]
		before := subsets(t, servers, clients, k)
		even(t, "all", servers, before, k)
		for range 2 {
			i := random.IntN(len(servers))
			gone := servers[i]
			rest := append(append([]Entry{}, servers[:i]...), servers[i+1:]...)
			random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
			after := subsets(t, rest, clients, k)
			even(t, "one has gone", rest, after, k)
			for c := range before {
				changed := 0
				for addr := range before[c] {
					if !after[c][addr] {
						changed++
					}
				}
				want := 0
				if before[c][gone.Addr] {
					want = 1
				}
				if changed != want {
					t.Fatalf("%v: client %d changes %d servers when one goes or comes, want %d", size, c,
						changed, want)
				}
			}
		}
	}
}

// TestSubsetHoles: numbers with holes of a twentieth leave load even.
func TestSubsetHoles(t *testing.T) {
	random := rand.New(rand.NewPCG(49, 2))
	servers := fleet(1000)
	for range 50 {
		i := random.IntN(len(servers))
		servers = append(servers[:i], servers[i+1:]...)
	}
	even(t, "holes", servers, subsets(t, servers, 1000, 32), 32)
}

// TestSubsetUnnumbered: servers without numbers have clients by chance, all of them some, and one
// that goes changes its clients alone.
func TestSubsetUnnumbered(t *testing.T) {
	servers := fleet(100)
	for i := range servers {
		servers[i].Number = 0
	}
	before, after := subsets(t, servers, 200, 10), subsets(t, servers[1:], 200, 10)
	if least, most := spread(servers, before, 10); least < 0.2 || most > 2.5 {
		t.Errorf("between %.2f and %.2f of the share", least, most)
	}
	for c := range before {
		for addr := range before[c] {
			if addr != servers[0].Addr && !after[c][addr] {
				t.Fatalf("client %d has lost %s, and %s has gone", c, addr, servers[0].Addr)
			}
		}
	}
}
