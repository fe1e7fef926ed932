package ycsb

import (
	"math"
	"math/rand/v2"
)

// Theta is the exponent of YCSB's Zipf distributions.
const Theta = 0.99

// hashedRanks is how many ranks the scrambled distribution has.
const hashedRanks = 10_000_000_000

// Zipf draws ranks 1 to n: rank k with probability k^-Theta/ζ(n, Theta).
type Zipf struct {
	n      int64
	first  float64 // H(1.5) - 1
	last   float64 // H(n + 0.5)
	accept float64 // a draw this close above its rank needs no second look
}

// NewZipf returns a Zipf of n ranks, at least one.
func NewZipf(n int64) *Zipf {
	z := &Zipf{first: integral(1.5) - 1, accept: 2 - inverse(integral(2.5)-density(2))}
	z.Resize(n)
	return z
}

// Resize sets the number of ranks, at least one.
func (z *Zipf) Resize(n int64) {
	if n = max(n, 1); n != z.n {
		z.n = n
		z.last = integral(float64(n) + 0.5)
	}
}

// density is x^-Theta.
func density(x float64) float64 { return math.Exp(-Theta * math.Log(x)) }

// integral is that of the density from 1 to x.
func integral(x float64) float64 { return math.Expm1((1-Theta)*math.Log(x)) / (1 - Theta) }

// inverse is that of integral.
func inverse(u float64) float64 { return math.Exp(math.Log1p(u*(1-Theta)) / (1 - Theta)) }

// Next draws a rank.
func (z *Zipf) Next(r *rand.Rand) int64 {
	for {
		u := z.last + r.Float64()*(z.first-z.last)
		x := inverse(u)
		k := min(max(int64(x+0.5), 1), z.n)
		if float64(k)-x <= z.accept || u >= integral(float64(k)+0.5)-density(float64(k)) {
			return k
		}
	}
}

// Zeta is the sum of k^-Theta for k from 1 to n: exact to some 12 digits, by Euler and Maclaurin
// beyond the first thousand terms.
func Zeta(n int64) float64 {
	const exact = 1000
	sum := 0.0
	for k := int64(1); k <= min(n, exact); k++ {
		sum += density(float64(k))
	}
	if n <= exact {
		return sum
	}
	a, b := float64(exact), float64(n)
	sum += integral(b) - integral(a) + (density(b)-density(a))/2
	return sum + Theta/12*(density(a)/a-density(b)/b)
}

// hash is FNV-1a over the 8 bytes of n, the lowest first.
func hash(n uint64) uint64 {
	h := uint64(0xcbf29ce484222325)
	for range 8 {
		h = (h ^ n&0xff) * 0x100000001b3
		n >>= 8
	}
	return h
}

// absolute is Java's Math.abs of h, which YCSB applies to its hashes.
func absolute(h uint64) uint64 {
	if int64(h) < 0 {
		return -h
	}
	return h
}

// scramble returns the record of n that a rank stands for.
func scramble(rank, n int64) int64 {
	return int64(absolute(hash(uint64(rank-1))) % uint64(n))
}
