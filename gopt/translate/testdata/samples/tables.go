// Command samples has functions of the accepted subset, what they are translated to, and compares
// the answers of both.
package main

import (
	"math/bits"

	g "github.com/userspace-rpc/erpc/gopt"
)

type entry struct {
	key   uint32
	value *uint32
	next  *entry
	_     [40]byte
}

type table struct {
	entries []entry
	order   []uint32
	levels  [3][]uint32
	depth   uint8
}

func place(x uint32) uint32 { return x * 0x9E3779B1 >> 24 }

// figure5 is the lookup of the paper's figure 5.
//
//gopt:batch B=16
func (t *table) figure5(k uint32) uint32 {
	// Where the entry is.
	at := place(k)
	e := &t.entries[at] // of this key, or of another
	g.Expensive(e)      // the entry
	// The value lies elsewhere.
	v := e.value
	g.Expensive(v) // the value
	if v == nil {
		return ^uint32(0) // not found
	}
	return *v
}

// early returns in each stage, and from a loop of a stage.
//
//gopt:batch B=5
func (t *table) early(k uint32) (sum uint32) {
	for i := range uint32(3) {
		if k == i {
			return i
		}
		sum += i
	}
	at := place(k)
	g.Expensive(&t.order[at])
	x := t.order[at]
	if x%3 == 0 {
		sum += x
		return
	}
	g.Expensive(&t.order[x])
	g.Expensive(&t.entries[x])
	sum, k = sum+t.order[x], k+1
	if v := t.entries[x].value; v != nil {
		return sum + *v
	}
	g.Expensive(&t.order[place(k)])
	return sum + t.order[place(k)]
}

// follow walks a list, with a comment at each turn.
//
//gopt:batch B=8
func (t *table) follow(k uint32) uint32 {
	n := uint32(0)
	// From the first entry on
	for e := &t.entries[place(k)]; e != nil && n < 40; e = e.next { // to the last one
		g.Expensive(e) // wait here
		if e.key == k {
			continue // this one does not count
		}
		if e.key > 1<<31 {
			break
		}
		n++
	} // the end
	return n
}

// labels leaves loops within loops.
//
//gopt:batch B=7
func (t *table) labels(k uint32) (r uint32) {
outer:
	for i := 0; i < 4; i++ {
		for j := range t.levels {
			list := t.levels[j]
			at := (k + uint32(i)) % uint32(len(list))
			g.Expensive(&list[at])
			switch list[at] & 7 {
			case 0:
				continue outer
			case 1:
				break outer
			case 2, 3:
				break
			default:
				for x := range 3 {
					if x == 2 {
						break
					}
					if uint32(x)+r > 1000 {
						continue outer
					}
					r += uint32(x)
				}
			}
			r += list[at]
		}
	}
	return r
}

// cases has marks in a switch, with a fallthrough.
//
//gopt:batch B=4
func (t *table) cases(k uint32) uint32 {
	var (
		x, y = k & 3, uint32(1)
		z    uint32
	)
	switch w := k >> 2 & 3; {
	case w == 0:
		g.Expensive(&t.order[k&255])
		x = t.order[k&255]
		fallthrough
	case w == 1:
		g.Expensive(&t.order[x&255])
		y += t.order[x&255]
	case w == 2 && y == 1:
		return x
	default:
		g.Expensive(&t.order[w])
		if z = t.order[w]; z > 100 {
			break
		}
		y = z
	}
	switch x {
	case 0:
		g.ExpensiveLines(&t.entries[0], int(t.depth))
		y++
	case 1, 2:
		y += 2
	}
	return x ^ y ^ z
}

// names are used twice, and hide others.
//
//gopt:batch B=3
func (t *table) names(place_ uint32) uint32 {
	place := place(place_)
	len := uint32(7)
	if k := place & 15; k > 3 {
		k := k + 1
		g.Expensive(&t.order[k])
		place += t.order[k] + k
	} else if k, s := k+2, k; k&1 == 0 {
		next := t.order[s]
		g.Expensive(&t.order[k])
		next, busy := t.order[k], next
		place ^= next + busy + len
	} else {
		place = 0
	}
	{
		place := place + 1
		g.Expensive(&t.order[place&255])
		len += t.order[place&255] + uint32(bits.OnesCount32(place))
	}
	return place + len
}

// ranges go through slices and numbers.
//
//gopt:batch B=6
func (t *table) ranges(k uint32) (r uint32) {
	local := [4]uint32{k, k >> 8, k >> 16, k >> 24}
	for _, b := range t.levels[k%3][:9] {
		at := b & 255
		g.Expensive(&t.order[at])
		r += t.order[at]
	}
	for i := range int64(k & 3) {
		i *= 2
		local[i&3]++
		g.Expensive(&t.order[i])
		r ^= t.order[i] + local[k&3]
	}
	for i := range local {
		var x uint32
		x += local[i] & 255
		g.Expensive(&t.order[x])
		if r += t.order[x]; r&63 == 5 {
			return
		}
	}
	var i, b int
	for i, _ = range t.levels {
		g.Expensive(&t.levels[i])
		b = i
	}
	return r + uint32(i+b)
}

// taken has the names that generated text would give.
//
//gopt:batch B=9 backend=switch
func (t *table) taken(k uint32) (_, loop1 uint32, err error) {
	begin, next, busy, n, s, j, lookups, lines := k, k, k, k, k, k, k, k
after1:
	for {
		for {
			if begin += 3; begin&7 > 2 {
				break after1
			}
		}
	}
stage1:
	for min := range uint32(2) {
		g.Expensive(&t.order[min])
		if t.order[min] == 0 {
			break stage1
		}
		loop1 += begin + next ^ busy*n + s - j ^ lookups + lines
	}
	if loop1&1 == 0 {
		return
	}
	return 0, loop1, nil
}

// takenToo is taken in stages.
//
//gopt:batch B=9
func (t *table) takenToo(k uint32) (_, n uint32) {
	i, left, live, was, lines := k, k, k, k, k
stage1:
	for {
		for range 3 {
			if n++; n == 2 {
				break stage1
			}
			if k < 5 {
				return 1, 2
			}
		}
	}
	g.Expensive(&t.order[k&255])
	if n += i + left + live + was + lines + t.order[k&255]; n&1 == 0 {
		return
	}
	return k, n
}

// once reaches a mark seldom, and one not at all.
//
//gopt:batch B=32 backend=switch with=half:halved
func (t *table) once(k uint32) uint32 {
	if half(k) > 1<<20 {
		return k
	}
	for k > 0 && k < 256 {
		g.Expensive(&t.order[k])
		k = t.order[k] % k
	}
	panicky := func(x uint32) uint32 { return x + 1 }
	return panicky(k)
}

func half(k uint32) uint32   { return k / 2 }
func halved(k uint32) uint32 { return k >> 1 }
