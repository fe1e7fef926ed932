package carousel_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// item is scheduled by the tests of this file.
type item struct {
	id   int
	flow int
	at   carousel.Time
	clip bool
}

// keyed is an item of the model, with the slot's number it waits for.
type keyed struct {
	item
	key int64
}

// pair drives a wheel and its model, a sorted list, and compares them. Beside the
// order it checks the promises that need no model: nothing early, order per flow.
type pair struct {
	t      rapid.TB
	w      *carousel.Wheel[item]
	slots  int64
	g      time.Duration // granularity
	now    carousel.Time // as the caller last had it; may go back
	seen   carousel.Time // greatest now
	items  []keyed
	aside  int // so many of the first items gave their slots to later ones
	clips  uint64
	ids    int
	flowAt []carousel.Time // greatest time inserted per flow
	last   []int           // last id popped per flow
}

const flows = 4

func newPair(t rapid.TB, c carousel.Config, now carousel.Time) *pair {
	w, err := carousel.New[item](c, now)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	p := &pair{t: t, w: w, g: w.Granularity(), now: now, seen: now,
		flowAt: make([]carousel.Time, flows), last: make([]int, flows)}
	p.slots = int64(w.Horizon()/p.g) + 2
	for i := range p.flowAt {
		p.flowAt[i] = math.MinInt64
	}
	return p
}

// slot returns the number of the slot that a time is in.
func (p *pair) slot(at carousel.Time) int64 {
	q := int64(at) / int64(p.g)
	if int64(at)%int64(p.g) < 0 {
		q--
	}
	return q
}

// begin returns the time at which a slot begins.
func (p *pair) begin(slot int64) carousel.Time { return carousel.Time(slot * int64(p.g)) }

// start is the least key that a new item may have.
func (p *pair) start() int64 {
	start := p.slot(p.seen)
	if len(p.items) > p.aside {
		start = min(start, p.items[p.aside].key)
	}
	return start
}

// position returns the number of items with at most this key.
func (p *pair) position(key int64) int {
	i := slices.IndexFunc(p.items, func(it keyed) bool { return it.key > key })
	if i < 0 {
		return len(p.items)
	}
	return i
}

// insert schedules the next item of a flow at a time, or at the flow's time before if
// that is later: a pacing clock never goes back.
func (p *pair) insert(flow int, at carousel.Time) {
	at = max(at, p.flowAt[flow])
	p.flowAt[flow] = at
	p.ids++
	it := item{id: p.ids, flow: flow, at: at}

	key := p.slot(at)
	if p.begin(key) != at {
		key++
	}
	last := min(p.slot(p.seen)+p.slots-1, p.slot(math.MaxInt64))
	if it.clip = key > last; it.clip {
		key = last
		p.clips++
	}
	key = max(key, p.start())
	if key-p.start() >= p.slots {
		p.aside = p.position(p.slot(p.seen))
	}
	p.items = slices.Insert(p.items, p.position(key), keyed{it, key})

	if got := p.w.Insert(at, it); got != it.clip {
		p.t.Fatalf("insert at %d, seen %d: clipped %v, want %v", at, p.seen, got, it.clip)
	}
}

func (p *pair) advance(now carousel.Time) {
	p.now = now
	p.seen = max(p.seen, now)
	p.w.Advance(now)
}

// pop takes at most n items at a time.
func (p *pair) pop(now carousel.Time, n int) {
	p.now = now
	p.seen = max(p.seen, now)
	for range n {
		got, ok := p.w.Pop(now)
		if want := len(p.items) > 0 && p.items[0].key <= p.slot(p.seen); ok != want {
			p.t.Fatalf("pop at %d, seen %d: got %+v, %v, want %v of %+v", now, p.seen, got, ok,
				want, p.items)
		}
		if !ok {
			return
		}
		if got != p.items[0].item {
			p.t.Fatalf("pop at %d: got %+v, want %+v", now, got, p.items[0].item)
		}
		p.items = p.items[1:]
		p.aside = max(0, p.aside-1)
		if !got.clip && got.at > p.seen && got.at <= p.begin(p.slot(math.MaxInt64)) {
			p.t.Fatalf("pop at %d, seen %d: %+v is early", now, p.seen, got)
		}
		if got.id <= p.last[got.flow] {
			p.t.Fatalf("flow %d: %d after %d", got.flow, got.id, p.last[got.flow])
		}
		p.last[got.flow] = got.id
	}
}

// check compares what can be asked without changing anything.
func (p *pair) check() {
	if p.w.Len() != len(p.items) || p.w.Clipped() != p.clips {
		p.t.Fatalf("Len %d, Clipped %d, want %d, %d", p.w.Len(), p.w.Clipped(), len(p.items), p.clips)
	}
	at, ok := p.w.Next()
	if ok != (len(p.items) > 0) {
		p.t.Fatalf("Next says %d, %v with %d items", at, ok, len(p.items))
	}
	if !ok {
		return
	}
	key := p.items[0].key
	if due := key <= p.slot(p.seen); due && at > p.seen || !due && at != p.begin(key) {
		p.t.Fatalf("Next says %d at %d; the first item is in slot %d", at, p.seen, key)
	}
}

// end takes everything out.
func (p *pair) end() {
	p.pop(math.MaxInt64, len(p.items)+1)
	p.check()
	if len(p.items) != 0 {
		p.t.Fatalf("%d items are left", len(p.items))
	}
}

// add is a+b, or the end of time.
func add(a carousel.Time, b time.Duration) carousel.Time {
	switch sum := a.Add(b); {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	default:
		return sum
	}
}

var shapes = []carousel.Config{
	{Granularity: 2, Horizon: 2},
	{Granularity: 8, Horizon: 62 * 8},
	{},
	{Granularity: 64, Horizon: (carousel.MaxSlots - 2) * 64},
}

var origins = []carousel.Time{0, -1, 1 << 40, math.MinInt64, math.MaxInt64 - 1<<20}

// distances from now: about a slot, about the wheel, hours.
func distance(t *rapid.T, p *pair) time.Duration {
	g, h := int64(p.g), int64(p.w.Horizon())
	return time.Duration(rapid.OneOf(
		rapid.Int64Range(-2*g, 4*g),
		rapid.Int64Range(0, h),
		rapid.Int64Range(h-4*g, h+4*g),
		rapid.Int64Range(-3*h, 3*h),
		rapid.Int64Range(-5*int64(time.Hour), 5*int64(time.Hour)),
	).Draw(t, "distance"))
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t, rapid.SampledFrom(shapes).Draw(t, "shape"),
			rapid.SampledFrom(origins).Draw(t, "origin"))
		insert := func(t *rapid.T) {
			p.insert(rapid.IntRange(0, flows-1).Draw(t, "flow"), add(p.now, distance(t, p)))
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert":  insert,
			"insert2": insert,
			"same": func(t *rapid.T) {
				p.insert(rapid.IntRange(0, flows-1).Draw(t, "flow"), slices.Max(p.flowAt))
			},
			"advance": func(t *rapid.T) { p.advance(add(p.now, distance(t, p))) },
			"pop": func(t *rapid.T) {
				p.pop(add(p.now, distance(t, p)), rapid.IntRange(1, 5).Draw(t, "n"))
			},
			"drain": func(*rapid.T) { p.pop(p.now, len(p.items)+1) },
			"":      func(*rapid.T) { p.check() },
		})
		p.end()
	})
}

// FuzzScript reads a shape, an origin and then commands of three bytes: what to do and
// with which flow, and a distance from now whose unit the first byte chooses.
func FuzzScript(f *testing.F) {
	f.Add([]byte{1, 0, 0, 10, 0, 1, 20, 0, 3, 255, 0})
	f.Add([]byte{0, 1, 0x10, 1, 0, 0x23, 1, 0, 0x30, 255, 255, 4, 0, 0})
	f.Add([]byte{2, 3, 0x20, 1, 0, 0x33, 200, 0, 0x24, 9, 0, 4, 1, 0})
	f.Add([]byte{3, 4, 0x12, 255, 127, 0x13, 0, 128, 0x32, 255, 127, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 {
			return
		}
		p := newPair(t, shapes[int(script[0])%len(shapes)], origins[int(script[1])%len(origins)])
		for s := script[2:]; len(s) >= 3; s = s[3:] {
			unit := []time.Duration{1, p.g, p.w.Horizon() / 64, time.Minute}[s[0]>>4&3]
			to := add(p.now, time.Duration(int16(binary.LittleEndian.Uint16(s[1:])))*unit)
			switch op := int(s[0] & 7); op {
			case 0, 1, 2, 3:
				p.insert(op%flows, to)
			case 4:
				p.advance(to)
			case 5:
				p.pop(to, 1)
			default:
				p.pop(to, len(p.items)+1)
			}
			p.check()
		}
		p.end()
	})
}
