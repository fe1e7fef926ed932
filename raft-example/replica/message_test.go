package replica

import (
	"bytes"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func sampleMessages() []*pb.Message {
	u := func(v uint64) *uint64 { return &v }
	entries := []*pb.Entry{{Type: pb.EntryNormal.Enum(), Term: u(4), Index: u(8),
		Data: []byte("data")},
		{Type: pb.EntryConfChange.Enum(), Term: u(5), Index: u(9), Data: []byte("x")},
		{Type: pb.EntryNormal.Enum(), Term: u(5), Index: u(10)}}
	var list []*pb.Message
	for _, typ := range []pb.MessageType{pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp,
		pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow} {
		m := &pb.Message{Type: typ.Enum(), To: u(1), From: u(2), Term: u(3), LogTerm: u(4), Index: u(7),
			Commit: u(6), Vote: u(2), RejectHint: u(9), Reject: new(true), Context: []byte("ctx")}
		if typ == pb.MsgApp {
			m.Entries = entries
		}
		list = append(list, m)
	}
	for _, typ := range []pb.MessageType{pb.MsgReadIndex, pb.MsgReadIndexResp} {
		entry := &pb.Entry{Type: pb.EntryNormal.Enum(), Term: u(0), Index: u(8), Data: []byte("name")}
		list = append(list, &pb.Message{Type: typ.Enum(), To: u(1), From: u(2), Term: u(3), LogTerm: u(0),
			Index: u(7), Commit: u(0), Vote: u(0), RejectHint: u(0), Reject: new(false),
			Entries: []*pb.Entry{entry}})
	}
	return append(list, &pb.Message{Type: pb.MsgApp.Enum(), To: u(1), From: u(2), Term: u(3),
		LogTerm: u(4), Index: u(7), Commit: u(6), Vote: u(0), RejectHint: u(0), Reject: new(false),
		Entries: entries[:1]})
}

// TestMessages: messages that are appended are parsed, one after the other; a cut is noticed.
func TestMessages(t *testing.T) {
	var all []byte
	for _, m := range sampleMessages() {
		b := AppendMessage(nil, m)
		got, rest, err := ParseMessage(b)
		if err != nil || len(rest) != 0 || !proto.Equal(got, m) || len(b) != Size(m) {
			t.Errorf("%v: %v, %v", m, got, err)
		}
		for n := range len(b) {
			if _, _, err := ParseMessage(b[:n]); err == nil {
				t.Errorf("%v cut to %d bytes was taken", m.GetType(), n)
			}
		}
		all = append(all, b...)
	}
	far := AppendMessage(nil, &pb.Message{Type: pb.MsgApp.Enum(), Index: new(uint64(1<<62 + 1))})
	if m, _, err := ParseMessage(far); err == nil {
		t.Errorf("%v was taken: the indexes of its entries could overflow", m)
	}
	for _, m := range sampleMessages() { // raft takes the one entry of a question for granted
		switch m.GetType() {
		case pb.MsgReadIndex, pb.MsgReadIndexResp:
			one := m.Entries[0]
			for _, m.Entries = range [][]*pb.Entry{nil, {one, one}} {
				if _, _, err := ParseMessage(AppendMessage(nil, m)); err == nil {
					t.Errorf("%v with %d entries was taken", m.GetType(), len(m.Entries))
				}
			}
		}
	}
	count := 0
	for rest := all; len(rest) > 0; count++ {
		var err error
		if _, rest, err = ParseMessage(rest); err != nil {
			t.Fatal(err)
		}
	}
	if count != len(sampleMessages()) {
		t.Error(count)
	}
}

// FuzzMessage: nothing that a peer sends makes the parser panic or grow, and a message that it
// takes is one that it would send.
func FuzzMessage(f *testing.F) {
	for _, m := range sampleMessages() {
		f.Add(AppendMessage(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := ParseMessage(b)
		if err != nil {
			return
		}
		if again := AppendMessage(nil, m); !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Errorf("%x is appended as %x", b, again)
		}
	})
}
