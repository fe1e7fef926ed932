package wireshark

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/wire"
)

// dissectSealed is dissect with a key log, beside the script that opens packets by it.
func dissectSealed(t *testing.T, file, log string) []map[string]string {
	return dissect(t, file, "-X", "lua_script:erpckeys.lua", "-o", "erpc.keylog:"+log)
}

// TestSealed: with a key log the dissector shows a sealed capture as the one in plaintext.
func TestSealed(t *testing.T) {
	const folder = "../../cmd/erpc/testdata/"
	plain := dissect(t, folder+"plain.pcapng")
	rows := dissectSealed(t, folder+"sealed.pcap", folder+"sealed.keys")
	if len(rows) != len(plain) || len(rows) != 15 {
		t.Fatalf("%d frames, %d in plaintext", len(rows), len(plain))
	}
	sealed := 0
	for i := range rows {
		if rows[i]["erpc.sealed.counter"] != "" {
			sealed++
		}
		for _, row := range []map[string]string{rows[i], plain[i]} {
			maps.DeleteFunc(row, func(k, _ string) bool {
				return strings.HasPrefix(k, "udp.checksum") ||
					strings.HasPrefix(k, "ip.checksum") || strings.HasPrefix(k, "erpc.sealed.")
			})
		}
		if !maps.Equal(rows[i], plain[i]) {
			t.Errorf("frame %d: %v, want %v", i, rows[i], plain[i])
		}
	}
	if sealed != 10 {
		t.Errorf("%d frames were sealed", sealed)
	}
}

// sealing is an association whose packets are recorded.
type sealing struct {
	client, server *security.Association
	log            []byte
}

func newSealing(t *testing.T, rng *rand.Rand) *sealing {
	s := &security.Secrets{AEAD: security.AES128GCM}
	for i := range s.Client {
		s.Client[i], s.Server[i] = byte(rng.Uint32()), byte(rng.Uint32())
	}
	const toClient, toServer = 0x010002, 3<<24 | 0x7F0001 // as others have, too
	x := &sealing{log: s.AppendKeyLog(nil, rng.Uint64(), toClient, toServer)}
	var err error
	if x.client, err = security.NewAssociation(s, true); err == nil {
		x.server, err = security.NewAssociation(s, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	x.client.Address(toServer)
	x.server.Address(toClient)
	return x
}

// request returns a packet of some size, and its data.
func request(rng *rand.Rand, size int) (pkt, data []byte) {
	data = make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	pkt = append(make([]byte, wire.HeaderSize), data...)
	h := wire.Header{Type: wire.TypeReq, ReqType: 1, MsgSize: uint32(size), Session: 5, ReqNum: 8}
	h.Put(pkt, rng.Uint32())
	return pkt, data
}

// seal seals a request of one side, which the other opens; damage then changes a bit of it.
func (x *sealing) seal(t *testing.T, rng *rand.Rand, size int, damage bool) (
	pkt []byte, data string,
) {
	from, to := x.client, x.server
	if rng.IntN(2) == 0 {
		from, to = to, from
	}
	plain, raw := request(rng, size)
	pkt, ok := from.Seal(nil, plain[:wire.HeaderSize], plain[wire.HeaderSize:])
	if !ok {
		t.Fatal("not sealed")
	}
	if _, err := to.Open(bytes.Clone(pkt)); err != nil {
		t.Fatal(err)
	}
	if damage {
		pkt[len(pkt)-1-rng.IntN(len(pkt)-12)] ^= 1 << rng.IntN(8)
		return pkt, ""
	}
	return pkt, hex.EncodeToString(raw)
}

// TestSealedPhases: packets of all sizes, of two associations in turn, with key updates, in both
// directions. The dissector opens no damaged packet, and none whose secret is not in the log.
func TestSealedPhases(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 20))
	all := []*sealing{newSealing(t, rng), newSealing(t, rng)}
	other := newSealing(t, rng) // not in the log
	type frame struct {
		pkt    []byte
		data   string
		opened bool
	}
	var frames []frame
	for i := range 120 {
		x, damage := all[i%2], i%10 == 9
		if i%12 == 0 {
			x.client.Update()
		}
		if i%40 == 33 {
			x, damage = other, false
		}
		pkt, data := x.seal(t, rng, i%3*rng.IntN(600), damage)
		frames = append(frames, frame{pkt, data, x != other && !damage})
		if i > 2 && i%12 == 2 { // a packet of the phase before comes late
			frames[i], frames[i-4] = frames[i-4], frames[i]
		}
	}
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for _, f := range frames {
			send("127.0.0.1:31850", "127.0.0.2:31850", f.pkt)
		}
	})
	log := filepath.Join(t.TempDir(), "keys")
	lines := fmt.Appendf(nil, "# eRPC\nCLIENT_RANDOM 12 34\n%sERPC_CLIENT_SECRET_1 short\n%s",
		all[0].log, all[1].log)
	if err := os.WriteFile(log, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := dissectSealed(t, file, log)
	if len(rows) != len(frames) {
		t.Fatalf("%d frames of %d", len(rows), len(frames))
	}
	for i, row := range rows {
		want := frames[i]
		opened := row["erpc.session"] == "5" && row["erpc.reqnum"] == "8" && row["erpc.malformed"] == ""
		if opened != want.opened || opened && row["erpc.data"] != want.data ||
			row["_ws.lua.error"] != "" {
			t.Errorf("frame %d: %v, want %+v", i, row, want)
		}
	}
}
