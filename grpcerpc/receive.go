package grpcerpc

import "io"

// receive waits for the next message of a client.
func (st *serverStream) receive() (m message, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		m, ok := st.in.take()
		if st.in.due() && len(st.parked) > 0 {
			st.mu.Unlock()
			st.flush()
			st.mu.Lock()
			if !ok {
				continue
			}
		}
		switch {
		case ok:
			return m, nil
		case st.err != nil:
			return m, st.err
		case st.halfClosed && st.in.partial:
			return m, errFrames
		case st.halfClosed:
			return m, io.EOF
		}
		st.changed.Wait()
	}
}
