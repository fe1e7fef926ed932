package erpc

// Forget makes a server drop its end of a client's session without a word.
func (r *Rpc) Forget(client *Session) {
	for _, s := range r.engine.table.byNumber {
		if s == nil || s.sv == nil || s.end.Remote != client.end.Local {
			continue
		}
		if s.end.Peer == client.engine.owner.LocalAddr() {
			s.sv.Close(r.engine.out)
			for r.engine.out.Next() != nil {
				// Nobody is told.
			}
			r.engine.forget(s)
		}
	}
}
