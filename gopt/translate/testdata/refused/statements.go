// Package refused has functions that can't be translated, each with the reason in its line.
package refused

import (
	"iter"
	"strings"

	"github.com/userspace-rpc/erpc/gopt"
)

var (
	data   [100]uint32
	count  int
	slice  []uint32
	dict   map[uint32]int
	news   chan int
	sums   = func(yield func(int) bool) {}
	_      iter.Seq[int]
	shared = &data[0]
)

type thing struct {
	n    int
	next *thing
	list []int
	inner
}

type inner struct{ deep *thing }

func (t *thing) grow()     { t.n++ }
func (t thing) size() int  { return t.n }
func (t *thing) put(n int) {}

//gopt:batch
func ends(k uint32) uint32 {
	defer func() {}() // want: defer
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch
func starts(k uint32) uint32 {
	go print() // want: go
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch
func selects(k uint32) uint32 {
	gopt.Expensive(&data[k])
	select { // want: select
	case <-news: // want: a receive
	default:
	}
	news <- 1 // want: a send
	return data[k]
}

//gopt:batch
func literals(k uint32) uint32 {
	f := func(i uint32) uint32 { return i + 1 }
	gopt.Expensive(&data[k])
	g := func() uint32 { return k } // want: a function literal uses k
	h := func() {
		gopt.Expensive(&data[0]) // want: a mark in a function literal
	}
	h()
	return f(g())
}

//gopt:batch
func ranges(k uint32) (n int) {
	gopt.Expensive(&data[k])
	for i := range sums { // want: range over a function
		n += i
	}
	for k := range dict { // want: with a mark in it: range over a map
		gopt.Expensive(&data[k])
	}
	for _, c := range "text" { // want: with a mark in it: range over a string
		gopt.Expensive(&data[c])
	}
	for c := range news { // want: a range over a channel
		gopt.Expensive(&data[c])
	}
	for _, c := range data { // want: with a mark in it: range over an array by value
		gopt.Expensive(&data[c])
	}
	var place [2]int
	for place[0] = range slice { // want: with a mark in it: range into
		gopt.Expensive(&data[n])
	}
	for k := range dict {
		n += int(k)
	}
	return n
}

//gopt:batch
func typed(k any) uint32 {
	switch k := k.(type) { // want: a type switch
	case uint32:
		gopt.Expensive(&data[k])
		return data[k]
	}
	return 0
}

//gopt:batch
func gotos(k uint32) uint32 {
again:
	k++
	gopt.Expensive(&data[k])
	if k = data[k]; k > 10 {
		goto again // want: goto again leads out of a statement
	}
	for {
	inside:
		if k++; k < 5 {
			goto inside
		}
		break
	}
	return k
}

//gopt:batch
func into(k uint32) uint32 {
	gopt.Expensive(&data[k])
	goto block // want: goto block jumps into block
	{
	block:
		k++
	}
	return k
}

//gopt:batch shared=common
func writes(t *thing, k uint32, common int) uint32 {
	var own thing
	var fields [4]thing
	gopt.Expensive(&data[k])
	own.n, fields[k].n = 1, 2
	count++                    // want: a write to shared data: count
	data[k] = 1                // want: a write to shared data: data[k]
	slice[k] = 1               // want: a write to shared data: slice[k]
	dict[k] += 1               // want: a write to shared data: dict[k]
	*shared = 1                // want: a write to shared data: *shared
	t.n++                      // want: a write to shared data: t.n
	(t.next).n = 2             // want: a write to shared data: (t.next).n
	own.next.n = 3             // want: a write to shared data: own.next.n
	own.deep.n = 3             // want: a write to shared data: own.deep.n
	own.list[0] = 4            // want: a write to shared data: own.list[0]
	common = 5                 // want: a write to common
	for common = range slice { // want: a write to common
	}
	return own.list2()
}

func (t thing) list2() uint32 { return 0 }

//gopt:batch
func builtins(k uint32) (n int) {
	var own [4]uint32
	gopt.Expensive(&data[k])
	copy(own[:], slice)
	clear(own[1:])
	slice := append(slice, k) // want: append may write
	copy(slice, own[:])       // want: copy may write
	clear(dict)               // want: clear may write
	delete(dict, k)           // want: delete may write
	close(news)               // want: close may write
	recover()                 // want: recover
	return len(slice)
}

//gopt:batch
func (t *thing) receiver(k uint32) (n int) {
	for t != nil {
		gopt.Expensive(t)
		n += t.n
		t = t.next // want: a write to t, which all lookups share
	}
	return n
}

//gopt:batch
func pointers(k uint32) uint32 {
	x, y := k, [2]uint32{}
	px := &x   // want: a pointer to x
	py := y[:] // want: a pointer to y
	var b strings.Builder
	b.WriteByte(1) // want: a pointer to b
	var t thing
	t.grow() // want: a pointer to t
	gopt.Expensive(px)
	z := k
	pz := &z
	_ = pz
	return x + y[0] + py[1] + uint32(b.Len()) + uint32(t.size())
}

//gopt:batch backend=switch
func pointersAgain(k uint32) uint32 {
	p := &k // want: a pointer to k
	for range 3 {
		local := *p
		q := &local // want: a pointer to local
		_ = *q
		gopt.Expensive(p)
		r := &local
		_ = r
	}
	return k
}

//gopt:batch
func constants(k uint32) uint32 {
	const c = 5
	type kind uint32
	gopt.Expensive(&data[k])
	return data[k] + c + // want: c is declared in the function
		uint32(kind(k)) // want: kind is declared in the function
}

//gopt:batch
func foreign(k uint32) uint32 {
	r := strings.NewReplacer()
	it := maker()
	gopt.Expensive(&data[k])
	_, _ = r, it
	return data[k]
}

func maker() iter.Seq[int] { return nil }
