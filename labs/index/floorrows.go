package main

import "time"

// floors are rows for the least program.
func (b *bench) floors() []row {
	each := func(n int, fn func(list []entry)) func(time.Duration) float64 {
		return func(each time.Duration) float64 {
			b.needFloor()
			return timed(each, n, func() { fn(b.next(n)) })
		}
	}
	get := each(chunk, func(list []entry) {
		for _, e := range list {
			v, ok := b.floor.get(e)
			b.check(v, e.value, ok)
		}
	})
	batch := each(chunk, func(list []entry) {
		for ; len(list) > 0; list = list[16:] {
			b.floor.getBatch(b, (*[16]entry)(list))
		}
	})
	var page floorPage
	fill := each(16, func(list []entry) {
		for _, e := range list {
			b.sortedLeaves.fill(&page, e, 128)
			b.sum += total(page.values)
		}
	})
	scan := each(16, func(list []entry) {
		for _, e := range list {
			b.sortedLeaves.scan(e, 128, func(_ []byte, v uint64) bool { b.sum += v; return true })
		}
	})
	search := each(chunk, func(list []entry) {
		b.floor.needUppers()
		for _, e := range list {
			v, ok := b.floor.search(e.key)
			b.check(v, e.value, ok)
		}
	})
	return []row{
		{"floor search", "get btree", 0, search},
		{"floor get", "get btree", 0, get},
		{"floor batch 16", "get btree", 0, batch},
		{"floor scan 128", "scan 128 btree", 0, scan},
		{"floor fill 128", "scan 128 btree", 0, fill},
		{"floor hot scan 128", "hot scan 128 btree", 0, b.hot(scan)},
		{"floor hot fill 128", "hot scan 128 btree", 0, b.hot(fill)},
	}
}

func (b *bench) needFloor() {
	if b.floor == nil {
		b.floor, b.sortedLeaves = newFloor(b), newFloorScan(b)
	}
}
