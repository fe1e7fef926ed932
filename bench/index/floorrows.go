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
	scan := each(16, func(list []entry) {
		for _, e := range list {
			b.floor.scan(e, 128, func(_ []byte, v uint64) bool { b.sum += v; return true })
		}
	})
	sum := each(16, func(list []entry) {
		for _, e := range list {
			b.sum += b.floor.add(e, 128)
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
		{"floor sum 128", "scan 128 btree", 0, sum},
		{"floor hot scan 128", "hot scan 128 btree", 0, b.hot(scan)},
	}
}

func (b *bench) needFloor() {
	if b.floor == nil {
		b.floor = newFloor(b)
	}
}
