package engine

import (
	"os"
	"testing"
)

// TestEndSessionsTrusted: a peer that is trusted without keys is known by its user, another one in
// the clear by its address, and its sessions end.
func TestEndSessionsTrusted(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		set := setup{}
		if trusted {
			set = setup{PSK: [][]byte{make([]byte, 32)}, TrustLocal: true}
		}
		st := newStub(t, set)
		st.end.way.Private = trusted
		s := st.connectOffer(1, 5, 6, st.offerOf())
		uid := -1
		if trusted {
			uid = os.Getuid()
		}
		list := st.Known()
		if len(list) != 1 || list[0].UID != uid || list[0].Peer != stubAddr(1) {
			t.Fatalf("%+v", list)
		}
		if n := st.Shut(list); n != 1 || s.Open() {
			t.Errorf("%d sessions ended", n)
		}
		st.settle()
		if n := st.Shut(list); n != 0 {
			t.Errorf("%d sessions ended again", n)
		}
		st.close()
	}
}
