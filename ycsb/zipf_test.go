package ycsb

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestZeta: the constant that YCSB's program has for 10^10 ranks, and plain sums.
func TestZeta(t *testing.T) {
	if z := Zeta(hashedRanks); math.Abs(z-26.46902820178302) > 1e-6 {
		t.Errorf("ζ(10^10) = %.10f", z)
	}
	for _, n := range []int64{1, 2, 999, 1000, 1001, 5000, 123_456} {
		sum := 0.0
		for k := int64(1); k <= n; k++ {
			sum += math.Pow(float64(k), -Theta)
		}
		if z := Zeta(n); math.Abs(z-sum) > 1e-9*sum {
			t.Errorf("ζ(%d) = %.12f, want %.12f", n, z, sum)
		}
	}
}

// chiSquare compares counts with the probabilities of their cells, which have at least 5 expected
// each, and reports by how many standard deviations the sum is above its mean.
func chiSquare(counts []float64, p func(i int) float64) float64 {
	total := 0.0
	for _, c := range counts {
		total += c
	}
	sum, cells := 0.0, -1.0
	got, want := 0.0, 0.0
	for i, c := range counts {
		got += c
		if want += p(i) * total; want < 5 {
			continue // joins the next cell
		}
		sum += (got - want) * (got - want) / want
		cells++
		got, want = 0, 0
	}
	return (sum - cells) / math.Sqrt(2*cells)
}

// TestZipf: frequencies are those of the closed form, for few and many ranks.
func TestZipf(t *testing.T) {
	const draws = 1_000_000
	for _, n := range []int64{1, 2, 3, 10, 1000, 20_000} {
		z, r := NewZipf(n), rand.New(rand.NewPCG(1, uint64(n)))
		counts := make([]float64, n)
		for range draws {
			counts[z.Next(r)-1]++ // out of range panics
		}
		zeta := Zeta(n)
		if n == 1 {
			continue
		}
		share := func(i int) float64 { return density(float64(i+1)) / zeta }
		if off := chiSquare(counts, share); off > 5 {
			t.Errorf("%d ranks: chi square is %.1f deviations off", n, off)
		}
	}
}

// TestZipfLarge: the share of the first ranks of 10^10, each within 5 deviations.
func TestZipfLarge(t *testing.T) {
	const draws, first = 2_000_000, 40
	z, r := NewZipf(hashedRanks), rand.New(rand.NewPCG(3, 4))
	var counts [first + 1]float64
	for range draws {
		if k := z.Next(r); k <= first {
			counts[k]++
		}
	}
	for k := 1; k <= first; k++ {
		p := density(float64(k)) / Zeta(hashedRanks)
		if off := (counts[k] - draws*p) / math.Sqrt(draws*p*(1-p)); math.Abs(off) > 5 {
			t.Errorf("rank %d: %v of %d, %.1f deviations off", k, counts[k], draws, off)
		}
	}
}

// TestZipfGrows: a Zipf that has grown draws as one that was made that large, number for number.
func TestZipfGrows(t *testing.T) {
	grown, fresh := NewZipf(10), NewZipf(5000)
	r, s := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(5, 6))
	for n := int64(11); n <= 5000; n++ {
		grown.Resize(n)
	}
	for range 100_000 {
		if a, b := grown.Next(r), fresh.Next(s); a != b {
			t.Fatalf("%d, want %d", a, b)
		}
	}
	if grown.Resize(0); grown.Next(r) != 1 {
		t.Error("no ranks at all")
	}
}

// TestHash: FNV-1a of 8 zero bytes, and the key that YCSB's program gives record 0.
func TestHash(t *testing.T) {
	if h := hash(0); h != 0xa8c7f832281a39c5 {
		t.Errorf("%#x", h)
	}
	if key := string(AppendKey(nil, 0)); key != "user6284781860667377211" {
		t.Error(key)
	}
	if absolute(1<<63) != 1<<63 || absolute(math.MaxUint64) != 1 {
		t.Error("absolute values")
	}
}
