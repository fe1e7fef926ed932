package erpc

// Associations returns how many associations an endpoint's peers have, and the packets that its
// first one has sealed.
func (r *Rpc) Associations() (n int, sealed uint64) {
	for _, p := range r.engine.peers.watched {
		if p.seal != nil {
			n += 1 + len(p.others)
			sealed += p.seal.Counter()
		}
	}
	return n, sealed
}
