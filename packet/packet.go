package packet

// Tx is one packet to send: Head followed by Data, which may be empty. Whoever sends
// it only reads both, and says when it no longer refers to them.
type Tx struct {
	Dst  Addr
	Via  uint32 // the association that seals it, as its owner names it; 0: it leaves in the clear
	Head []byte
	Data []byte
}
