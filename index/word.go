package index

import "sync/atomic"

// word is the value of a Map, and what else is stored and loaded by one instruction. One that no
// other goroutine can find yet is written without an atomic store, which takes longer.
type word struct{ v uint64 }

func (w *word) Load() uint64 { return atomic.LoadUint64(&w.v) }

// Store stores v after all stores before it, as others see it. It does not wait for these: writers
// hold a lock, and only the unlocking is a barrier against later loads.
func (w *word) Store(v uint64) { store(&w.v, v) }
