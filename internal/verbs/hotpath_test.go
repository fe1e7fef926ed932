package verbs

import (
	"testing"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	a, b := pair(t, UD)
	ah := must[*AH](t)(a.pd.CreateAH(a.way(b)))
	closeIn(t, "address handle", ah)
	send, recv, wc := make([]SendWR, 16), make([]RecvWR, 16), make([]WC, 16)
	for i := range send {
		send[i] = SendWR{AH: ah.Handle(), QPN: b.qp.Num(), QKey: qkey, Opcode: OpSend,
			Flags: Inline, Num: 1,
			Pieces: [2]Piece{a.piece(0, 32)}}
		recv[i] = RecvWR{Piece: b.piece(i*4096, 4096)}
	}
	send[15].Flags |= Signaled
	n := testing.AllocsPerRun(50, func() {
		if _, err := b.qp.PostRecv(recv); err != nil {
			t.Fatal(err)
		}
		if _, err := a.qp.PostSend(send); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 17; {
			for _, cq := range []*CQ{a.send, b.recv} {
				k, err := cq.Poll(wc)
				if err != nil {
					t.Fatal(err)
				}
				got += k
			}
		}
		if err := b.recv.Arm(); err != nil {
			t.Fatal(err)
		}
		b.ch.Drain()
	})
	if n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
}
