package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes and limits of a bundle.
const (
	// BundleHeaderSize is the size of a bundle's header in bytes.
	BundleHeaderSize = 16
	// MaxBundled is the largest number of packets in a bundle.
	MaxBundled = 1<<8 - 1
	// MaxContent is the largest size in bytes of all records of a bundle together.
	MaxContent = 1<<16 - 1
	// MaxRecordHead is the largest size of a record's head in bytes.
	MaxRecordHead = recordSize + anotherSize + partSize

	recordSize  = 12 // of a head that has no more than every record has
	anotherSize = 8  // of session and token
	partSize    = 6  // of msgsize, flags and pktnum

	partBits   = 16            // of a packet number, in the part
	upperShift = pktShift + 16 // place of the others in the second word of a head
	upperBits  = 0xF0          // they are these of the last byte of the word
)

// The upper bits of a record's first byte.
const (
	recordAnother  = 1 << 4 // another session than the packet before
	recordWhole    = 1 << 5 // a packet number 0 without flags that has all of its message
	recordReserved = 3 << 6
)

// ErrBundle is the error of a bundle whose records are not as many or as long as it says.
var ErrBundle = errors.New("wire: a bundle's packets do not fit its count or its content")

// IsBundle reports whether pkt begins as a bundle does. All other packets go to [Header.Parse],
// which refuses a bundle with ErrType.
func IsBundle(pkt []byte) bool {
	return len(pkt) > 0 && pkt[0]|(Version^OldVersion)<<4 == byte(TypeBundle)|Version<<4
}

// Bundle reads the packets of a bundle, one by one. It refers to the datagram and copies nothing.
// The zero value is a bundle without packets.
type Bundle struct {
	records []byte // those of the datagram, nothing behind them
	version uint8
	at      int    // where the next record begins
	session uint32 // of the packet that Next gave last
	token   uint32 // of that session
	another bool
}

// Parse checks all of a datagram that is a bundle: its header, and each packet inside by the rules
// of [Header.Parse]. Then Next gives the first packet. After an error b has no packets. The errors
// are those of Header.Parse and ErrBundle. Nobody may change the datagram meanwhile, or before the
// last Next: what was checked is read again.
func (b *Bundle) Parse(pkt []byte) error { return b.ParseCut(pkt, len(pkt)) }

// ParseCut is Parse for a datagram of size bytes of which a capture kept no more than pkt. Next
// gives the packets that are there from end to end.
func (b *Bundle) ParseCut(pkt []byte, size int) error {
	*b = Bundle{}
	if len(pkt) < BundleHeaderSize {
		return ErrShort
	}
	p := (*[BundleHeaderSize]byte)(pkt)
	first := binary.LittleEndian.Uint64(p[0:])
	session := binary.LittleEndian.Uint32(p[8:])
	count, content := int(first>>8&0xFF), int(first>>16&0xFFFF)
	switch {
	case p[0]>>4 != Version && p[0]>>4 != OldVersion:
		return ErrVersion
	case Type(p[0]&0x0F) != TypeBundle:
		return ErrType
	case first>>32 != 0:
		return ErrFlags
	case !IsSession(session):
		return ErrSession
	case count == 0 || content > size-BundleHeaderSize:
		return ErrBundle
	}
	records := pkt[BundleHeaderSize:min(len(pkt), BundleHeaderSize+content)]
	version := uint8(first >> 4 & 0x0F)
	n, err := checkRecords(records, count, version)
	if err == nil && n != content {
		return ErrBundle
	}
	if err != nil && (err != ErrBundle || len(records) == content) {
		return err
	}
	b.records, b.version = records[:n], version
	b.session, b.token = session, binary.LittleEndian.Uint32(p[12:])
	return nil
}

// checkRecords checks that b begins with count sound records of a version. It returns their bytes,
// or those before the first that is not sound, or not all there: the error is ErrBundle then.
func checkRecords(b []byte, count int, version uint8) (at int, err error) {
	upper := byte(upperBits)
	if version == OldVersion {
		upper = 0
	}
	at, n, plain := skipPlain(b, count, true, upper)
	for n < count {
		refused := byte(recordReserved)
		if n == 0 {
			refused |= recordAnother
		}
		size, err := checkRecord(b[at:], refused, version)
		if err != nil {
			return at, err
		}
		at, n = at+size, n+1
		if plain {
			var skipped, m int
			skipped, m, plain = skipPlain(b[at:], count-n, false, upper)
			at, n = at+skipped, n+m
		}
	}
	return at, nil
}

// skipPlain returns how many of the next count records are requests or responses of one packet
// and surely sound, and the bytes of these. Upper are bits of the last byte of a record's head that
// must be zero; if one of the records has some, plain is false and there are none. It only saves
// time.
func skipPlain(b []byte, count int, begins bool, upper byte) (at, n int, plain bool) {
	b = b[:len(b):len(b)] // the compiler leaves out the check of a bound that is the length
	last := byte(0)
loop:
	for ; n < count && len(b)-at >= recordSize; n++ {
		rec := b[at:]
		first, size := binary.LittleEndian.Uint32(rec), int(binary.LittleEndian.Uint16(rec[4:]))
		switch byte(first) {
		case byte(TypeReq) | recordWhole, byte(TypeResp) | recordWhole:
			size += recordSize
		case byte(TypeReq) | recordWhole | recordAnother, byte(TypeResp) | recordWhole | recordAnother:
			size += recordSize + anotherSize
			if begins || size > len(rec) || !IsSession(binary.LittleEndian.Uint32(rec[recordSize:])) {
				break loop
			}
		default:
			break loop
		}
		if byte(first>>8) > MaxReqType || size > len(rec) {
			break
		}
		last |= rec[recordSize-1]
		begins = false
		at += size
	}
	if last&upper != 0 {
		return 0, 0, false
	}
	return at, n, true
}

// checkRecord checks the record that b begins with, and returns its size in bytes. The bits in
// refused are refused.
func checkRecord(b []byte, refused byte, version uint8) (size int, err error) {
	if len(b) < recordSize {
		return 0, ErrBundle
	}
	var h Header
	head := headSize(b[0])
	if b[0]&refused != 0 {
		return 0, ErrFlags
	}
	if Type(b[0]&0x0F) == TypeMgmt {
		return 0, ErrType
	}
	payload := int(binary.LittleEndian.Uint16(b[4:]))
	if head+payload > len(b) {
		return 0, ErrBundle
	}
	h.Version = version
	h.readRecord(b[:head])
	if !h.numbersFit(b[0]) {
		return 0, ErrFlags
	}
	return head + payload, h.check(payload)
}

// headSize returns the size of a record's head in bytes, by its first byte.
func headSize(first byte) int {
	size := recordSize
	if first&recordAnother != 0 {
		size += anotherSize
	}
	if first&recordWhole == 0 {
		size += partSize
	}
	return size
}

// readRecord reads the head of a record, which is all of b, by h's version. The session stays as it
// is if the record has none. It returns the token, zero then.
func (h *Header) readRecord(b []byte) (token uint32) {
	first, num := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
	h.Type, h.ReqType, h.Hold = Type(first&0x0F), uint8(first>>8), uint16(first>>16)
	h.Flags, h.PktNum, h.MsgSize, h.ReqNum = 0, 0, uint32(num&0xFFFF), num>>16
	if first&recordAnother != 0 {
		q := (*[recordSize + anotherSize]byte)(b)
		h.Session = binary.LittleEndian.Uint32(q[recordSize:])
		token = binary.LittleEndian.Uint32(q[recordSize+4:])
	}
	if first&recordWhole == 0 {
		q := b[len(b)-partSize:]
		sizeFlags := binary.LittleEndian.Uint32(q)
		h.MsgSize, h.Flags = sizeFlags&MaxMsgSize, Flags(sizeFlags>>28)
		h.PktNum = uint32(binary.LittleEndian.Uint16(q[4:]))
		if h.Version != OldVersion {
			h.PktNum |= uint32(num>>upperShift) << partBits
			h.ReqNum &= MaxReqNum
		}
	}
	return token
}

// numbersFit reports whether a record that says so is that of packet number 0. Its head was read.
func (h *Header) numbersFit(first byte) bool {
	return first&recordWhole == 0 || h.Version == OldVersion || h.ReqNum <= MaxReqNum
}

// Next reads the next packet into h, all of its fields, and returns its payload, which aliases the
// datagram; ok is false if there is none.
func (b *Bundle) Next(h *Header) (payload []byte, ok bool) {
	at, all := b.at, b.records[:len(b.records):len(b.records)]
	if len(all)-at < recordSize {
		return nil, false
	}
	rec := all[at:]
	first, num := binary.LittleEndian.Uint32(rec), binary.LittleEndian.Uint64(rec[4:])
	if first&recordWhole == 0 {
		return b.nextPart(h)
	}
	size, head := int(num&0xFFFF), recordSize
	b.another = first&recordAnother != 0
	if b.another {
		if head = recordSize + anotherSize; head > len(rec) {
			return nil, false
		}
		who := binary.LittleEndian.Uint64(rec[recordSize:head])
		b.session, b.token = uint32(who), uint32(who>>32)
	}
	if head+size > len(rec) {
		return nil, false // the memory has changed since Parse
	}
	b.at = at + head + size
	h.Type, h.ReqType, h.Hold = Type(first&0x0F), uint8(first>>8), uint16(first>>16)
	h.Flags, h.Version, h.PktNum, h.MsgSize = 0, b.version, 0, uint32(size)
	h.Session, h.ReqNum = b.session, num>>16
	return rec[head : head+size : head+size], true
}

// nextPart is Next for a packet that is not all of its message.
func (b *Bundle) nextPart(h *Header) (payload []byte, ok bool) {
	rec := b.records[b.at:]
	head := headSize(rec[0])
	size := head + int(binary.LittleEndian.Uint16(rec[4:]))
	if size > len(rec) {
		return nil, false
	}
	b.another = rec[0]&recordAnother != 0
	h.Session, h.Version = b.session, b.version
	if token := h.readRecord(rec[:head]); b.another {
		b.session, b.token = h.Session, token
	}
	b.at += size
	return rec[head:size:size], true
}

// Another reports whether the packet that Next gave last is of another session than the packet
// before it. The first packet is not: its session is that of the bundle, see [SessionOf].
func (b *Bundle) Another() bool { return b.another }

// Token returns the token of the session of the packet that Next gave last. The bundle's first
// session has it as it stands in the header: see [Token] and [Checksum].
func (b *Bundle) Token() uint32 { return b.token }

// ParseFirst reads the header of the first packet in a bundle of which b has the first bytes, with
// that header or more, and checks it. [Token] is that of its session, if there are no checksums.
func (h *Header) ParseFirst(b []byte) error {
	if len(b) < BundleHeaderSize+recordSize {
		return ErrShort
	}
	rec := b[BundleHeaderSize:]
	head := headSize(rec[0])
	switch {
	case !IsBundle(b) || Type(rec[0]&0x0F) == TypeMgmt:
		return ErrType
	case rec[0]&(recordReserved|recordAnother) != 0:
		return ErrFlags
	case len(rec) < head:
		return ErrShort
	}
	h.Session, h.Version = binary.LittleEndian.Uint32(b[8:]), b[0]>>4
	h.readRecord(rec[:head])
	if !h.numbersFit(rec[0]) {
		return ErrFlags
	}
	return h.check(int(binary.LittleEndian.Uint16(rec[4:])))
}

// Offset returns where in the datagram the next packet's record begins, or where the last one
// ended.
func (b *Bundle) Offset() int { return BundleHeaderSize + b.at }

// PutBundle writes the header of a bundle into the first BundleHeaderSize bytes of b: for count
// packets of a version whose records take content bytes. Session and token are those of the first
// packet. In a session with checksums [SetToken] follows once the datagram is whole, as for a lone
// packet: [Checksum] leaves out the same bytes.
func PutBundle(b []byte, version uint8, count, content int, session, token uint32) {
	p := (*[BundleHeaderSize]byte)(b)
	binary.LittleEndian.PutUint64(p[0:], uint64(First(TypeBundle, version))|
		uint64(uint8(count))<<8|uint64(uint16(content))<<16)
	binary.LittleEndian.PutUint64(p[8:], uint64(session)|uint64(token)<<32)
}

// whole reports whether a record with so many bytes of payload need not say h's flags, packet
// number and message size.
func (h *Header) whole(payload int) bool {
	return h.Flags == 0 && h.PktNum == 0 && int(h.MsgSize) == payload
}

// RecordSize returns how many bytes of a bundle a packet takes that has the header h and so many
// bytes of payload. Another says that its session is not that of the packet before it.
func RecordSize(h *Header, payload int, another bool) int {
	size := recordSize + payload
	if another {
		size += anotherSize
	}
	if !h.whole(payload) {
		size += partSize
	}
	return size
}

// PutWhole writes the same as PutRecord for packet number 0, without flags and with all of its
// message, of the session of the packet before it. It returns the size of the head.
func PutWhole(b []byte, t Type, reqType uint8, hold uint16, reqNum uint64, payload int) int {
	p := (*[recordSize]byte)(b)
	binary.LittleEndian.PutUint32(p[0:], uint32(t)|recordWhole|uint32(reqType)<<8|uint32(hold)<<16)
	binary.LittleEndian.PutUint64(p[4:], uint64(uint16(payload))|reqNum<<16)
	return recordSize
}

// PutAnother makes the record that PutWhole wrote to b one of another session than that of the
// packet before it. It returns by how much the head has grown.
func PutAnother(b []byte, session, token uint32) int {
	p := (*[recordSize + anotherSize]byte)(b)
	p[0] |= recordAnother
	binary.LittleEndian.PutUint64(p[recordSize:], uint64(session)|uint64(token)<<32)
	return anotherSize
}

// PutRecord writes the head of a record to b, and returns its size in bytes: at most
// MaxRecordHead, and RecordSize without the payload, which the caller puts behind it. The token of
// h's session counts if it is another session. Fields wider than their place are cut, but for the
// request number; callers keep the limits. [Hold] and [SetHold] work on a record too.
func PutRecord(b []byte, h *Header, payload int, another bool, token uint32) int {
	p := (*[recordSize]byte)(b)
	first := uint32(h.Type&0x0F) | uint32(h.ReqType)<<8 | uint32(h.Hold)<<16
	binary.LittleEndian.PutUint64(p[4:], uint64(uint16(payload))|h.ReqNum<<16)
	n := recordSize
	if another {
		first |= recordAnother
		q := (*[anotherSize]byte)(b[n:])
		binary.LittleEndian.PutUint64(q[0:], uint64(h.Session)|uint64(token)<<32)
		n += anotherSize
	}
	if h.whole(payload) {
		first |= recordWhole
	} else {
		q := (*[partSize]byte)(b[n:])
		binary.LittleEndian.PutUint32(q[0:], h.MsgSize&MaxMsgSize|uint32(h.Flags)<<28)
		binary.LittleEndian.PutUint16(q[4:], uint16(h.PktNum))
		if n += partSize; h.Version != OldVersion {
			p[recordSize-1] |= byte(h.PktNum>>partBits) << 4
		}
	}
	binary.LittleEndian.PutUint32(p[0:], first)
	return n
}
