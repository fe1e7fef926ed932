package erpc

// Forget makes a server drop its end of a client's session without a word.
func (r *Rpc) Forget(client *Session) {
	for _, s := range r.engine.sessions {
		if s != nil && s.sv != nil && s.live.Remote == client.number && s.peer == client.rpc.LocalAddr() {
			s.sv.Close()
			r.engine.forget(s)
		}
	}
}
