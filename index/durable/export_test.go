package durable

import "github.com/userspace-rpc/erpc/index"

// Sim is a simulated disk for tests of servers.
type Sim = simDisk

// NewSim returns an empty one.
func NewSim() *Sim { return newSimDisk() }

// OpenSim opens it for a Map.
func OpenSim(d *Sim, m *index.Map, cfg Config) (*Store[uint64], error) {
	s := numbers(m)
	return s, s.open(d, cfg)
}

// OpenSimBytes opens it for a Bytes.
func OpenSimBytes(d *Sim, m *index.Bytes, cfg Config) (*Store[[]byte], error) {
	s := blobs(m)
	return s, s.open(d, cfg)
}

// HangSyncs lets syncs wait for the returned function.
func (d *simDisk) HangSyncs() (release func()) { return d.wait(&d.hang) }

// HangWrites lets writes wait for the returned function.
func (d *simDisk) HangWrites() (release func()) { return d.wait(&d.jam) }

func (d *simDisk) wait(at *chan struct{}) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	*at = c
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		*at = nil
		close(c)
	}
}

// Break lets the next operation fail.
func (d *simDisk) Break() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.wrong = d.ops+1, errDisk
}
