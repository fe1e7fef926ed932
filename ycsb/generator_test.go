package ycsb

import (
	"errors"
	"math"
	"testing"
)

func generator(t *testing.T, w Workload, keys *Keyspace) *Generator {
	t.Helper()
	g, err := NewGenerator(w, keys, 10, 11, 12)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestShares: each workload mixes its operations as the paper's Table 2 says.
func TestShares(t *testing.T) {
	const draws = 200_000
	for name, want := range map[string][Ops]float64{
		"a": {Read: .5, Update: .5}, "B": {Read: .95, Update: .05}, "c": {Read: 1},
		"d": {Read: .95, Insert: .05}, "e": {Scan: .95, Insert: .05},
		"F": {Read: .5, ReadModifyWrite: .5},
	} {
		w, err := Standard(name)
		if err != nil {
			t.Fatal(err)
		}
		g, counts := generator(t, w, NewKeyspace(1000, 5000)), [Ops]float64{}
		for range draws {
			r := g.Next()
			counts[r.Op]++
			if r.Op == Insert {
				g.keys.Inserted(r.Record, true)
			}
		}
		for op, p := range want {
			if off := math.Abs(counts[op] - draws*p); off > 5*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("%s: %v %vs of %d", name, counts[op], Op(op), draws)
			}
		}
	}
}

// TestUniform: all records alike.
func TestUniform(t *testing.T) {
	w, _ := Standard("c")
	w.Request = Uniform
	g, counts := generator(t, w, NewKeyspace(1000, 0)), make([]float64, 1000)
	for range 300_000 {
		counts[g.Next().Record]++
	}
	if off := chiSquare(counts, func(int) float64 { return 1. / 1000 }); off > 5 {
		t.Errorf("chi square is %.1f deviations off", off)
	}
}

// TestScrambled: a record gets the shares of all ranks whose hash leads to it. The first million
// ranks count one by one, the others alike for all records.
func TestScrambled(t *testing.T) {
	const n, near = 2000, 1_000_000
	w, _ := Standard("c")
	g, counts := generator(t, w, NewKeyspace(n, 0)), make([]float64, n)
	for range 1_000_000 {
		counts[g.Next().Record]++
	}
	zeta := Zeta(hashedRanks)
	p := make([]float64, n)
	for k := int64(1); k <= near; k++ {
		p[scramble(k, n)] += density(float64(k)) / zeta
	}
	for i := range p {
		p[i] += (zeta - Zeta(near)) / zeta / n
	}
	// The hashes of the ranks beyond are not quite even, so a little more is allowed.
	if off := chiSquare(counts, func(i int) float64 { return p[i] }); off > 6 {
		t.Errorf("chi square is %.1f deviations off", off)
	}
	hottest := scramble(1, n)
	if share := counts[hottest] / 1e6; share < 1/zeta {
		t.Errorf("the hottest record has %.4f of the requests", share)
	}
}

// TestLatest: ages follow Zipf's law, also when records come.
func TestLatest(t *testing.T) {
	const n = 500
	w, _ := Standard("d")
	keys := NewKeyspace(n, 0)
	g, counts := generator(t, w, keys), make([]float64, n)
	for i := range 600_000 {
		if i%100 == 0 {
			keys.Inserted(keys.Take(), true)
		}
		there := keys.Len()
		if age := there - 1 - g.record(); age < n {
			counts[age]++
		}
	}
	zeta := Zeta(n)
	share := func(i int) float64 { return density(float64(i+1)) / zeta }
	if off := chiSquare(counts, share); off > 5 {
		t.Errorf("chi square is %.1f deviations off", off)
	}
}

// TestScanLengths: uniform, 1 to 100.
func TestScanLengths(t *testing.T) {
	w, _ := Standard("e")
	keys := NewKeyspace(1000, 2000)
	g, counts := generator(t, w, keys), make([]float64, 100)
	for range 200_000 {
		if r := g.Next(); r.Op == Scan {
			counts[r.Count-1]++
		}
	}
	if off := chiSquare(counts, func(int) float64 { return 1. / 100 }); off > 5 {
		t.Errorf("chi square is %.1f deviations off", off)
	}
}

// TestKeyspace: a record is there when all before it are; one whose insert failed never is.
func TestKeyspace(t *testing.T) {
	k := NewKeyspace(10, 0)
	a, b, c := k.Take(), k.Take(), k.Take()
	if a != 10 || b != 11 || c != 12 {
		t.Fatal(a, b, c)
	}
	for _, step := range []struct {
		record int64
		ok     bool
		want   int64
	}{{c, true, 10}, {a, true, 11}, {b, false, 13}} {
		if k.Inserted(step.record, step.ok); k.Len() != step.want {
			t.Errorf("after record %d: %d, want %d", step.record, k.Len(), step.want)
		}
	}
	for record, want := range map[int64]bool{0: true, a: true, b: false, c: true, 13: false} {
		if k.known(record) != want {
			t.Errorf("record %d is there: %v", record, !want)
		}
	}
	if len(k.done) != 0 {
		t.Errorf("%d remembered", len(k.done))
	}
}

// TestNoRecordThatIsNotThere: requests ask only for records that are there.
func TestNoRecordThatIsNotThere(t *testing.T) {
	for _, d := range []Distribution{Uniform, Zipfian, Latest} {
		w, _ := Standard("d")
		w.Request = d
		keys := NewKeyspace(50, 1000)
		g := generator(t, w, keys)
		for i := range 20_000 {
			r := g.Next()
			if r.Op == Insert {
				keys.Inserted(r.Record, i%2 == 0)
			} else if !keys.known(r.Record) {
				t.Fatalf("%v: record %d of %d", d, r.Record, keys.Len())
			}
		}
	}
}

func TestBadWorkloads(t *testing.T) {
	if _, err := Standard("g"); !errors.Is(err, ErrUnknownWorkload) {
		t.Error(err)
	}
	for name, w := range map[string]Workload{
		"nothing":      {},
		"too much":     {Shares: [Ops]float64{Read: 1, Insert: .5}},
		"negative":     {Shares: [Ops]float64{Read: 1.5, Insert: -.5}},
		"not a number": {Shares: [Ops]float64{Read: math.NaN()}},
		"distribution": {Shares: [Ops]float64{Read: 1}, Request: 9},
		"no length":    {Shares: [Ops]float64{Scan: 1}},
	} {
		if _, err := NewGenerator(w, NewKeyspace(1, 0), 1, 1, 1); !errors.Is(err, ErrWorkload) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLeastWorkloads: what is just good enough.
func TestLeastWorkloads(t *testing.T) {
	for name, w := range map[string]Workload{
		"scans of one": {Shares: [Ops]float64{Scan: 1}, MaxScan: 1},
		"latest":       {Shares: [Ops]float64{Read: 1}, Request: Latest},
	} {
		if _, err := NewGenerator(w, NewKeyspace(1, 0), 1, 1, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
