package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// AppendPeers appends the bytes of the file that keeps the identities of other replicas' logs,
// by replica.
func AppendPeers(b []byte, id Identity, peers map[uint64]uint64) []byte {
	b = appendHeader(b, peersMagic, id)
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(peers)))
	for _, p := range slices.Sorted(maps.Keys(peers)) {
		b = binary.LittleEndian.AppendUint64(b, p)
		b = binary.LittleEndian.AppendUint64(b, peers[p])
	}
	return binary.LittleEndian.AppendUint64(b, uint64(crc32.Checksum(b[at:], castagnoli)))
}

// ParsePeers reads them. Errors: ErrVersion, ErrForeign, ErrCorrupt.
func ParsePeers(b []byte, want Identity) (map[uint64]uint64, error) {
	if _, err := parseHeader(b, peersMagic, want); err != nil {
		return nil, fmt.Errorf("%w: its peers", err)
	}
	body := b[headerSize:]
	if len(body) < 16 {
		return nil, fmt.Errorf("%w: its peers", ErrCorrupt)
	}
	sum := binary.LittleEndian.Uint64(body[len(body)-8:])
	body = body[:len(body)-8]
	count := uint64(len(body)-8) / 16
	if uint64(crc32.Checksum(body, castagnoli)) != sum || binary.LittleEndian.Uint64(body) != count ||
		len(body)%16 != 8 {
		return nil, fmt.Errorf("%w: its peers", ErrCorrupt)
	}
	peers := map[uint64]uint64{}
	for body = body[8:]; len(body) > 0; body = body[16:] {
		peers[binary.LittleEndian.Uint64(body)] = binary.LittleEndian.Uint64(body[8:])
	}
	return peers, nil
}

// SavePeers makes the identities of other replicas' logs durable. It may run in another
// goroutine than the rest, once at a time.
func (d *Dir) SavePeers(peers map[uint64]uint64) error {
	return d.replace(peersName, AppendPeers(nil, d.ID(), peers))
}

// loadPeers reads what SavePeers wrote, if it did.
func (d *Dir) loadPeers() (map[uint64]uint64, error) {
	b, err := os.ReadFile(d.name(peersName))
	if errors.Is(err, fs.ErrNotExist) {
		return map[uint64]uint64{}, nil
	}
	if err != nil {
		return nil, err
	}
	return ParsePeers(b, d.id)
}
