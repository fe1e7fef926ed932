package security

// FrameKeys returns for how many levels and directions a handshake has made keys of messages.
func FrameKeys(h *Handshake) (n int) {
	for i := range h.write {
		for _, k := range []*frameKey{&h.write[i], &h.read[i]} {
			if k.aead != nil {
				n++
			}
		}
	}
	return n
}
