package security

// WindowSize is how many packets, counted back from the newest, a receiver tells apart. Older ones
// are dropped.
const WindowSize = 4096

const windowWords = 2 * WindowSize / 64 // twice as many, so that whole words are cleared

// window holds the counters that were seen.
type window struct {
	bits [windowWords]uint64
	next uint64 // one more than the largest that was seen
}

// fresh reports whether a counter was not seen, as far as the window reaches.
func (w *window) fresh(n uint64) bool {
	if n >= w.next {
		return true
	}
	return w.next-n <= WindowSize && w.bits[n/64%windowWords]>>(n%64)&1 == 0
}

// add notes a counter for which fresh was true.
func (w *window) add(n uint64) {
	if n >= w.next {
		first, last := (w.next-1)/64+1, n/64 // words without a counter so far; all are clear at first
		if last-first >= windowWords && last >= first {
			clear(w.bits[:])
		} else {
			for ; first <= last; first++ {
				w.bits[first%windowWords] = 0
			}
		}
		w.next = n + 1
	}
	w.bits[n/64%windowWords] |= 1 << (n % 64)
}
