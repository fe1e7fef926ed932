package index

import "math/bits"

// width is how many places a leaf has, and lanes how many words have a byte for each.
const (
	width = 56
	lanes = width / 8
)

// state says which places of a leaf are keys: a bit each. Above them is the number of places that
// have been used, and two flags. Places are used once, and their number never falls. So a state
// that was stored twice says the same both times, and nothing changed between.
type state uint64

const (
	onePlace   = state(1) << width
	usedPlaces = 1<<6 - 1
	mixed      = state(1) << 62 // a place is, or was, an entry of a kind other than 8
	busy       = state(1) << 63 // a writer changes the order of the places that it counts
)

// keys returns the places that are keys, a bit each.
func (s state) keys() uint64 { return uint64(s) & (1<<width - 1) }

// size returns the number of keys.
func (s state) size() int { return bits.OnesCount64(s.keys()) }

// used returns the number of places that are, or have been, keys.
func (s state) used() int { return int(s>>width) & usedPlaces }

// has reports whether a place is a key.
func (s state) has(place int) bool { return s>>(place&63)&1 != 0 }

// whole reports whether all entries that the leaf has ever had are keys of 8 bytes.
func (s state) whole() bool { return s&mixed == 0 }

// with returns s with the next place.
func (s state) with(place int) state { return (s | 1<<place) + onePlace }

// without returns s without a place.
func (s state) without(place int) state { return s &^ (1 << place) }

// filled returns the state of a leaf with keys in the first n places.
func filled(n int) state { return 1<<n - 1 | state(n)<<width }

// lowest and highest have one bit in each byte.
const (
	lowest  = 0x0101_0101_0101_0101
	highest = 0x8080_8080_8080_8080
)

// mark returns the byte that stands for a slice in the marks of a leaf.
func mark(k uint64) uint64 { return k * 0x9E37_79B9_7F4A_7C15 >> 56 }

// zeros returns a bit for each byte of x that is zero. One above such a byte may be there too.
func zeros(x uint64) uint64 {
	x = (x - lowest) &^ x & highest
	return x >> 7 * 0x0102_0408_1020_4080 >> 56
}
