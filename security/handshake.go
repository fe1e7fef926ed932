package security

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Protocol is the name of the protocol in TLS (ALPN, RFC 7301).
const Protocol = "erpc/3"

// MaxStream is the largest number of bytes that a handshake takes from a peer.
const MaxStream = 64 << 10

// Errors of a handshake. Those of crypto/tls and crypto/x509 are wrapped.
var (
	ErrHandshake = errors.New("security: handshake failed")
	ErrMessage   = fmt.Errorf("%w: malformed message", ErrHandshake)
	ErrParams    = fmt.Errorf("%w: the peer's parameters are not those of the opening", ErrHandshake)
	ErrKey       = fmt.Errorf("%w: the shared keys differ", ErrHandshake)
)

// Handshake makes the keys of an association. One goroutine at a time uses it. It belongs to either
// side of TLS or of a shared key.
type Handshake struct {
	client bool
	judge  func(peer []byte) (mine []byte, err error)
	tls    *tls.QUICConn
	psk    *pskHandshake // nil for TLS
	begun  bool

	in, out []byte // the unread part of the peer's stream; what this side says next
	write   [numLevels]frameKey
	read    [numLevels]frameKey
	theirs  []byte // the peer's parameters
	mine    Ciphers
	done    bool
	secrets *Secrets
	err     error
	unshown *atomic.Bool // a client has certificates, but none for this server
}

// Opening has the statements of a side of a handshake, and its questions.
type Opening struct {
	// Params are a client's parameters. Those of a server follow from the client's.
	Params []byte
	// Judge gets the peer's parameters, authenticated when the handshake is done. A server's
	// returns what it says; a client's nothing. An error ends the handshake.
	Judge func(peer []byte) (mine []byte, err error)
	// Ciphers are those that this side has; [Own] if 0.
	Ciphers Ciphers
}

func newHandshake(client bool, o *Opening) *Handshake {
	h := &Handshake{client: client, judge: o.Judge, mine: o.Ciphers}
	if h.mine == 0 {
		h.mine = Own()
	}
	return h
}

// NewTLS returns a handshake by TLS 1.3. The config is one of [ClientConfig] or [ServerConfig].
func NewTLS(cfg *tls.Config, client bool, o Opening) *Handshake {
	h := newHandshake(client, &o)
	q := &tls.QUICConfig{TLSConfig: cfg}
	if client {
		q.TLSConfig = h.showing(cfg)
		h.tls = tls.QUICClient(q)
		h.tls.SetTransportParameters(append([]byte{byte(h.mine)}, o.Params...))
	} else {
		h.tls = tls.QUICServer(q)
	}
	return h
}

// showing returns a client's config that notes whether it has no certificate for the server.
func (h *Handshake) showing(cfg *tls.Config) *tls.Config {
	if len(cfg.Certificates) == 0 || cfg.GetClientCertificate != nil {
		return cfg
	}
	unshown := new(atomic.Bool)
	h.unshown = unshown
	c := cfg.Clone()
	c.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range cfg.Certificates { // as crypto/tls does
			if info.SupportsCertificate(&cfg.Certificates[i]) == nil {
				return &cfg.Certificates[i], nil
			}
		}
		unshown.Store(true)
		return new(tls.Certificate), nil
	}
	return c
}

// Unshown reports whether a client has shown no certificate, as the server asks for others than it
// has. Any goroutine may ask.
func (h *Handshake) Unshown() bool { return h.unshown != nil && h.unshown.Load() }

// Step takes what the peer's stream says next, which may be nothing, and returns what this side's
// says next. It may take as long as a signature. After an error the handshake is over, and what
// Step returns says so to the peer.
func (h *Handshake) Step(in []byte) (out []byte, err error) {
	if h.err != nil {
		return nil, h.err
	}
	h.out = nil
	if h.in = append(h.in, in...); len(h.in) > MaxStream {
		err = ErrMessage
	} else if h.psk != nil {
		err = h.psk.step(h)
	} else {
		err = h.stepTLS()
	}
	if err != nil {
		if h.err = err; !errors.Is(err, ErrHandshake) {
			h.err = fmt.Errorf("%w: %w", ErrHandshake, err)
		}
		h.Close()
	}
	return h.out, h.err
}

// PSK reports whether the handshake is by a shared key.
func (h *Handshake) PSK() bool { return h.psk != nil }

// KeyName returns the name of the shared key that the handshake is by, "" for TLS: see PSKName.
// Both sides have proved that they have the key when the handshake is done.
func (h *Handshake) KeyName() string {
	if h.psk == nil {
		return ""
	}
	return h.psk.name
}

// Whole returns how many bytes at the beginning of a peer's stream are whole messages, which Step
// can use; the rest is better kept outside until there is more. An error says that there never will
// be. PSK says that the handshake is by a shared key.
func Whole(psk bool, b []byte) (n int, err error) {
	head, limit := frameHead, maxFrame+tagSize
	if psk {
		head, limit = pskHead, maxPSK
	}
	for len(b)-n >= head {
		size := int(binary.LittleEndian.Uint16(b[n+head-2:]))
		if size > limit || size == 0 || !psk && (int(b[n]) >= numLevels || b[n+1] != 0) {
			return n, ErrMessage
		}
		if len(b)-n < head+size {
			break
		}
		n += head + size
	}
	return n, nil
}

// Done reports whether the keys are there, and the peer is known.
func (h *Handshake) Done() bool { return h.done }

// Secrets returns the keys once the handshake is done.
func (h *Handshake) Secrets() *Secrets { return h.secrets }

// TLS returns what TLS knows of the peer, nil with a shared key.
func (h *Handshake) TLS() *tls.ConnectionState {
	if h.tls == nil {
		return nil
	}
	s := h.tls.ConnectionState()
	return &s
}

// Close ends a handshake that is not done.
func (h *Handshake) Close() {
	if h.tls != nil && !h.done {
		_ = h.tls.Close() // it has nothing to say
	}
}

func (h *Handshake) stepTLS() error {
	if !h.begun {
		h.begun = true
		if err := h.tls.Start(context.Background()); err != nil {
			return err
		}
		if err := h.events(); err != nil {
			return err
		}
	}
	for {
		level, msg, rest, err := h.nextFrame(h.in)
		if err != nil {
			return err
		}
		if rest == nil {
			return nil
		}
		h.in = rest
		if err = h.tls.HandleData(level, msg); err != nil {
			return err
		}
		if err = h.events(); err != nil {
			return err
		}
	}
}

// events does what TLS asks for.
func (h *Handshake) events() error {
	for {
		switch e := h.tls.NextEvent(); e.Kind {
		case tls.QUICNoEvent:
			return nil
		case tls.QUICSetReadSecret:
			h.read[e.Level].set(e.Data)
		case tls.QUICSetWriteSecret:
			h.write[e.Level].set(e.Data)
		case tls.QUICWriteData:
			h.out = h.write[e.Level].appendFrame(h.out, e.Level, e.Data)
		case tls.QUICTransportParameters:
			h.theirs = bytes.Clone(e.Data)
		case tls.QUICTransportParametersRequired:
			mine, err := h.answer(h.theirs)
			if err != nil {
				return err
			}
			h.tls.SetTransportParameters(mine)
		case tls.QUICHandshakeDone:
			if err := h.finishTLS(); err != nil {
				return err
			}
		}
	}
}

// answer returns a server's parameters.
func (h *Handshake) answer(theirs []byte) ([]byte, error) {
	if len(theirs) == 0 {
		return nil, ErrParams
	}
	chosen, err := Choose(h.mine, Ciphers(theirs[0]))
	if err != nil {
		return nil, err
	}
	mine, err := h.judge(theirs[1:])
	return append([]byte{byte(chosen)}, mine...), err
}

// conclude judges the peer's parameters and returns the cipher that the server chose.
func (h *Handshake) conclude(theirs []byte) (AEAD, error) {
	if len(theirs) == 0 {
		return 0, ErrParams
	}
	if !h.client {
		return Choose(h.mine, Ciphers(theirs[0])) // it was judged before it was answered
	}
	chosen := AEAD(theirs[0])
	if chosen >= numAEADs || h.mine>>chosen&1 == 0 || chosen == 0 {
		return 0, ErrNoCipher
	}
	_, err := h.judge(theirs[1:])
	return chosen, err
}

// exporter names the secret that comes from TLS.
const exporter = "EXPORTER-erpc-3"

func (h *Handshake) finishTLS() error {
	chosen, err := h.conclude(h.theirs)
	if err != nil {
		return err
	}
	state := h.tls.ConnectionState()
	if state.NegotiatedProtocol != Protocol {
		return fmt.Errorf("%w: the peer does not speak %s in TLS", ErrHandshake, Protocol)
	}
	master, err := state.ExportKeyingMaterial(exporter, nil, SecretSize)
	if err != nil {
		return err
	}
	h.secrets = newSecrets(chosen, (*Secret)(master))
	h.done = true
	if !h.client {
		return h.tls.SendSessionTicket(tls.QUICSessionTicketOptions{})
	}
	return nil
}

// numLevels is the number of levels of tls.QUICEncryptionLevel.
const numLevels = int(tls.QUICEncryptionLevelApplication) + 1

// frameHead is the size of what stands before a frame's bytes.
//
//	0 level u8 · 1 zero u8 · 2 bytes u16, of the tag too
const frameHead = 4

// maxFrame is the most bytes that one frame carries.
const maxFrame = 16 << 10

// MaxFrame is the size of the largest message of a stream, with what stands before it.
const MaxFrame = frameHead + maxFrame + tagSize

// frameKey encrypts handshake messages of one level and direction.
type frameKey struct {
	secret []byte      // of TLS, until the first message
	aead   cipher.AEAD // nil for the first level, and before the first message
	iv     [nonceSize]byte
	count  uint64
}

// set takes TLS's secret. One of the four secrets of each side meets no message: a client says
// nothing after the handshake.
func (k *frameKey) set(secret []byte) { k.secret = bytes.Clone(secret) }

// cipher returns what encrypts, nil if TLS has given no secret.
func (k *frameKey) cipher() cipher.AEAD {
	if k.secret != nil {
		s := extract(k.secret, []byte("erpc3 handshake"))
		key, err := newKeys(AES128GCM, &s)
		if err != nil {
			panic("security: " + err.Error()) // the package has that cipher
		}
		k.secret, k.aead, k.iv = nil, key.aead, key.iv
	}
	return k.aead
}

func (k *frameKey) nonce() []byte {
	n := k.iv
	x := binary.BigEndian.Uint64(n[4:])
	binary.BigEndian.PutUint64(n[4:], x^k.count)
	k.count++
	return n[:]
}

// appendFrame appends a message, in as many frames as it takes.
func (k *frameKey) appendFrame(b []byte, level tls.QUICEncryptionLevel, msg []byte) []byte {
	aead := k.cipher()
	for len(msg) > 0 {
		part := msg[:min(len(msg), maxFrame)]
		msg = msg[len(part):]
		size := len(part)
		if aead != nil {
			size += tagSize
		}
		at := len(b)
		b = append(b, byte(level), 0, byte(size), byte(size>>8))
		if aead != nil {
			b = aead.Seal(b, k.nonce(), part, b[at:at+frameHead])
		} else {
			b = append(b, part...)
		}
	}
	return b
}

// nextFrame returns the first message in b and what is behind it, nil if it is not all there.
func (h *Handshake) nextFrame(b []byte) (
	level tls.QUICEncryptionLevel, msg, rest []byte, err error,
) {
	if len(b) < frameHead {
		return 0, nil, nil, nil
	}
	size := int(binary.LittleEndian.Uint16(b[2:]))
	if int(b[0]) >= numLevels || b[1] != 0 || size == 0 || size > maxFrame+tagSize ||
		b[0] == byte(tls.QUICEncryptionLevelEarly) {
		return 0, nil, nil, ErrMessage
	}
	if len(b) < frameHead+size {
		return 0, nil, nil, nil
	}
	level, k := tls.QUICEncryptionLevel(b[0]), &h.read[b[0]]
	msg = b[frameHead : frameHead+size]
	if level != tls.QUICEncryptionLevelInitial {
		aead := k.cipher()
		if aead == nil {
			return 0, nil, nil, ErrMessage
		}
		if msg, err = aead.Open(nil, k.nonce(), msg, b[:frameHead]); err != nil {
			return 0, nil, nil, ErrMessage
		}
	}
	return level, msg, b[frameHead+size:], nil
}

// ClientConfig returns a config for handshakes with a server, by its name.
func ClientConfig(cfg *tls.Config, server string) *tls.Config {
	c := prepared(cfg)
	if c.ServerName == "" {
		c.ServerName = server
	}
	return c
}

// ServerConfig returns a config for handshakes with clients. If it has ClientCAs and says nothing
// of client certificates, clients must have one that these vouch for.
func ServerConfig(cfg *tls.Config) *tls.Config {
	c := prepared(cfg)
	if cfg.CurvePreferences == nil { // the client chooses
		c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}
	}
	if c.ClientCAs != nil && c.ClientAuth == tls.NoClientCert {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if each := cfg.GetConfigForClient; each != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := each(hello)
			if own == nil || err != nil {
				return nil, err
			}
			return ServerConfig(own), nil
		}
	}
	return c
}

// prepared returns a copy with what the library needs: TLS 1.3, its protocol, and unless the config
// says otherwise X25519, whose first message fits one packet.
func prepared(cfg *tls.Config) *tls.Config {
	c := cfg.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{Protocol}
	if c.MaxVersion != 0 && c.MaxVersion < tls.VersionTLS13 {
		c.MaxVersion = tls.VersionTLS13
	}
	if c.CurvePreferences == nil {
		c.CurvePreferences = []tls.CurveID{tls.X25519}
	}
	return c
}
