package sim

// eventKind says what an event does.
type eventKind uint32

const (
	evHop     eventKind = iota // packet arg joins the next output queue
	evDeliver                  // packet arg arrives at its endpoint
	evTimer                    // timer arg fires
	evCore                     // core arg goes on
	evThread                   // thread arg is awake
)

// event is something that will happen. It holds no pointer, so that moving it
// in the heap costs no write barrier.
type event struct {
	at   Time
	seq  uint64
	kind eventKind
	arg  uint32
}

// before is the total order of events: by time, then by when they were made.
func (a *event) before(b *event) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// eventHeap is a heap of four children a node: fewer levels than a binary one,
// and the children share cache lines.
type eventHeap []event

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
	*h = s
}

// pop removes and returns the first event; the heap is not empty.
func (h *eventHeap) pop() event {
	s := *h
	first := s[0]
	last := s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) > 0 {
		s.sink(last)
	}
	return first
}

// sink puts e where it belongs, starting from the empty root.
func (h eventHeap) sink(e event) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}

// runQueue is a binary heap of the endpoints whose drivers are to run, each in
// it once at most, so that a driver that changes its mind leaves nothing behind.
type runQueue []*Endpoint

func (q runQueue) less(i, j int) bool {
	a, b := q[i], q[j]
	return a.runAt < b.runAt || a.runAt == b.runAt && a.runSeq < b.runSeq
}

func (q runQueue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].runPos, q[j].runPos = i, j
}

// set gives e the key (at, seq), adding it if it is not queued.
func (q *runQueue) set(e *Endpoint, at Time, seq uint64) {
	e.runAt, e.runSeq = at, seq
	if e.runPos < 0 {
		e.runPos = len(*q)
		*q = append(*q, e)
	}
	q.fix(e.runPos)
}

// remove takes e out, if it is in.
func (q *runQueue) remove(e *Endpoint) {
	i := e.runPos
	if i < 0 {
		return
	}
	last := len(*q) - 1
	if i != last {
		q.swap(i, last)
	}
	(*q)[last] = nil
	*q = (*q)[:last]
	e.runPos = -1
	if i != last {
		q.fix(i)
	}
}

func (q *runQueue) fix(i int) {
	for i > 0 && q.less(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		c := 2*i + 1
		if c >= len(*q) {
			return
		}
		if c+1 < len(*q) && q.less(c+1, c) {
			c++
		}
		if !q.less(c, i) {
			return
		}
		q.swap(i, c)
		i = c
	}
}
