package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// keySize is the size of a key in bytes (HERD, section 5).
const keySize = 16

// keyset is the numbered keys of a seed, and the values that belong to them: the key's number, a
// number of the write, and bytes that follow from both.
type keyset struct {
	n, seed uint64
	value   int // bytes of a value
}

// mix is the finalizer of splitmix64, a bijection.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// put writes key i to b. No two keys are the same.
func (k *keyset) put(b *[keySize]byte, i uint64) {
	x := mix(i + k.seed*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(b[:], x)
	binary.LittleEndian.PutUint64(b[8:], ^x)
}

// fill makes b the value of key i in a write. Values of less than 16 bytes are cut.
func (k *keyset) fill(b []byte, i, write uint64) {
	var word [8]byte
	for at := 0; at < len(b); at += 8 {
		x := mix(i ^ mix(write+uint64(at)))
		switch at {
		case 0:
			x = i
		case 8:
			x = write
		}
		binary.LittleEndian.PutUint64(word[:], x)
		copy(b[at:], word[:])
	}
}

// right reports whether b is a value of key i.
func (k *keyset) right(b []byte, i uint64) bool {
	if len(b) != k.value {
		return false
	}
	var word [8]byte
	write := uint64(0)
	if len(b) >= 16 {
		write = binary.LittleEndian.Uint64(b[8:])
	}
	for at := 0; at < len(b); at += 8 {
		x := mix(i ^ mix(write+uint64(at)))
		switch at {
		case 0:
			x = i
		case 8:
			if len(b) < 16 {
				return true // cut
			}
			continue
		}
		binary.LittleEndian.PutUint64(word[:], x)
		rest := b[at:min(at+8, len(b))]
		if string(rest) != string(word[:len(rest)]) {
			return false
		}
	}
	return true
}

// zipf draws numbers below n, of which number i has the probability 1/(i+1)^theta, but for a factor
// (Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994). YCSB's is
// the same; keys are mixed, so that those asked for most are spread.
type zipf struct {
	n, theta, alpha, zeta, eta float64
	second                     float64 // 1 + 1/2^theta
	whole                      uint    // alpha, if it is a whole number; else 0
}

// newZipf takes a theta from 0, which is uniform, to less than 1.
func newZipf(n uint64, theta float64) *zipf {
	z := &zipf{n: float64(n), theta: theta, alpha: 1 / (1 - theta), second: 1 + math.Pow(0.5, theta)}
	if theta == 0 {
		return z
	}
	for i := range n {
		z.zeta += math.Pow(float64(i+1), -theta)
	}
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - z.second/z.zeta)
	if whole := math.Round(z.alpha); math.Abs(z.alpha-whole) < 1e-9*whole {
		z.whole = uint(whole) // 100 for 0.99
	}
	return z
}

func (z *zipf) next(r *rand.Rand) uint64 {
	if z.theta == 0 {
		return r.Uint64N(uint64(z.n))
	}
	u := r.Float64()
	switch uz := u * z.zeta; {
	case uz < 1:
		return 0
	case uz < z.second:
		return min(1, uint64(z.n)-1)
	}
	return min(uint64(z.n*z.power(z.eta*u-z.eta+1)), uint64(z.n)-1)
}

// power is x to the power of alpha. By multiplications it is several times as fast, so that a
// client with skewed keys is no slower than one with others.
func (z *zipf) power(x float64) float64 {
	if z.whole == 0 {
		return math.Pow(x, z.alpha)
	}
	p := 1.0
	for n := z.whole; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= x
		}
		x *= x
	}
	return p
}
