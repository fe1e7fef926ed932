package main

import (
	"math/rand/v2"
	"sync"
	"time"
)

// outside stands for those that are no replicas: the clients.
const outside = 0

// weather says what becomes of packets between replicas, by their numbers, and clients.
type weather struct {
	mu    sync.Mutex
	rand  *rand.Rand
	cut   map[[2]int]bool // from, to
	loss  float64
	delay time.Duration // at most; each packet's own, so they overtake each other
	sent  int
	lost  int
}

func newWeather(seed uint64) *weather {
	return &weather{rand: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{}}
}

// meets is called for each packet.
func (w *weather) meets(from, to int) (lost bool, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	if w.cut[[2]int{from, to}] || w.rand.Float64() < w.loss {
		w.lost++
		return true, 0
	}
	if w.delay > 0 {
		delay = time.Duration(w.rand.Int64N(int64(w.delay)))
	}
	return false, delay
}

// counts returns how many packets were lost so far, of how many.
func (w *weather) counts() (lost, sent int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost, w.sent
}

// carry has a packet delivered, or not. deliver may be called later; b is copied then.
func (w *weather) carry(from, to int, b []byte, deliver func(b []byte)) {
	switch lost, delay := w.meets(from, to); {
	case lost:
	case delay == 0:
		deliver(b)
	default:
		b = append([]byte(nil), b...)
		time.AfterFunc(delay, func() { deliver(b) })
	}
}

// change changes it.
func (w *weather) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// clear ends all trouble.
func (w *weather) clear() {
	w.change(func() { w.loss, w.delay = 0, 0; clear(w.cut) })
}
