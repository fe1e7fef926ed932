package server

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
)

// Memory is a limit of the Go heap of a process. PUTs are refused once what is in use comes close
// to it, message.ErrFull; GETs, scans and DELETEs go on. All servers of a process may share one.
//
// What is in use is measured, since the size of a map depends on its keys. The heap is looked at
// after each MiB of writes. When it has seven eighths of the limit, garbage too, it is collected,
// unless less than a sixteenth was written since the last time; if so much is left PUTs are
// refused, until deletions of a sixteenth have made room.
type Memory struct {
	limit   uint64
	refuses atomic.Bool
	left    atomic.Int64 // bytes of writes until the next look
	looking atomic.Bool
	since   int64 // bytes of writes since the last collection; of who looks

	heap    func() uint64
	collect func()
}

// lookEach is after how many bytes of writes the heap is looked at.
const lookEach = 1 << 20

// perWrite is what a write takes beside its bytes, about.
const perWrite = 32

// NewMemory returns a limit of so many bytes.
func NewMemory(limit uint64) *Memory {
	return &Memory{limit: limit, heap: heapObjects, collect: runtime.GC}
}

// heapObjects returns the bytes of objects on the heap that are in use or not yet collected.
func heapObjects() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64()
}

// full reports whether PUTs are to be refused. A nil Memory has no limit.
func (m *Memory) full() bool {
	if m == nil || !m.refuses.Load() {
		return false
	}
	m.start()
	return true
}

// changed counts a write of so many bytes.
func (m *Memory) changed(n int) {
	if m != nil && m.left.Add(-int64(n+perWrite)) <= 0 {
		m.start()
	}
}

// start looks at the heap, unless somebody does.
func (m *Memory) start() {
	if m.looking.CompareAndSwap(false, true) {
		go func() {
			defer m.looking.Store(false)
			m.look()
		}()
	}
}

func (m *Memory) look() {
	m.since += lookEach - m.left.Swap(lookEach)
	much := m.limit - m.limit/8
	used := m.heap()
	if used > m.limit {
		m.refuses.Store(true) // while it is collected
	}
	if used > much && m.since >= int64(m.limit/16) {
		m.since = 0
		m.collect()
		used = m.heap()
	}
	m.refuses.Store(used > much)
}
