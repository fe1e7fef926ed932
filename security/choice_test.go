package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	const aes, gcm, chacha = Ciphers(1), Ciphers(1 << AES128GCM), Ciphers(1 << ChaCha20Poly1305)
	all := aes | gcm | chacha
	for _, c := range []struct {
		a, b Ciphers
		want AEAD
	}{
		{all, all, AES128GCM},
		{all, gcm | chacha, ChaCha20Poly1305}, // one processor does not compute AES
		{all, aes | chacha, ChaCha20Poly1305},
		{all, gcm, AES128GCM}, // in software, as there is no other
		{aes | gcm, aes | chacha, 0},
		{aes | chacha, aes | gcm, 0},
		{0, all, 0},
	} {
		for range 2 {
			got, err := Choose(c.a, c.b)
			if got != c.want || errors.Is(err, ErrNoCipher) != (c.want == 0) {
				t.Errorf("of %v and %v: %v, %v", c.a, c.b, got, err)
			}
			c.a, c.b = c.b, c.a
		}
	}
	if got := all.String(); got != "AES-128-GCM, ChaCha20-Poly1305" {
		t.Errorf("all: %s", got)
	}
	if AES128GCM.forgeries() != 1<<52 || ChaCha20Poly1305.forgeries() != 1<<36 {
		t.Error("other limits than RFC 9001 has")
	}
	if AEAD(numAEADs).Has() {
		t.Error("has a cipher without a number")
	}
}

// TestDefaults: what a config says stays; what it leaves open is X25519 for clients, TLS 1.3, and
// client certificates where authorities are named.
func TestDefaults(t *testing.T) {
	pool := x509.NewCertPool()
	p256 := []tls.CurveID{tls.CurveP256}
	for _, c := range []struct {
		cfg            *tls.Config
		client, server []tls.CurveID
		auth           tls.ClientAuthType
		max            uint16
	}{
		{&tls.Config{}, []tls.CurveID{tls.X25519},
			[]tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256}, 0, 0},
		{&tls.Config{CurvePreferences: p256, ClientCAs: pool}, p256, p256,
			tls.RequireAndVerifyClientCert, 0},
		{&tls.Config{CurvePreferences: p256, ClientCAs: pool, ClientAuth: tls.RequestClientCert,
			MaxVersion: tls.VersionTLS13}, p256, p256, tls.RequestClientCert, tls.VersionTLS13},
		{&tls.Config{CurvePreferences: p256, MaxVersion: tls.VersionTLS12}, p256, p256, 0,
			tls.VersionTLS13},
	} {
		client, server := ClientConfig(c.cfg, "host"), ServerConfig(c.cfg)
		if !slices.Equal(client.CurvePreferences, c.client) ||
			!slices.Equal(server.CurvePreferences, c.server) || server.ClientAuth != c.auth ||
			client.MinVersion != tls.VersionTLS13 || client.MaxVersion != c.max {
			t.Errorf("%v, %v, %v, %x", client.CurvePreferences, server.CurvePreferences,
				server.ClientAuth, client.MaxVersion)
		}
	}
}

// TestConfigForClient: a config that a server chooses for a client gets what the library needs, as
// the server's own does; none means the server's own, and an error ends the handshake.
func TestConfigForClient(t *testing.T) {
	var own *tls.Config
	var fails error
	cfg := ServerConfig(&tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return own, fails },
	})
	if got, err := cfg.GetConfigForClient(nil); got != nil || err != nil {
		t.Error(got, err)
	}
	own = &tls.Config{ServerName: "own", ClientCAs: x509.NewCertPool()}
	got, err := cfg.GetConfigForClient(nil)
	if err != nil || got == own || got.ServerName != "own" || got.MinVersion != tls.VersionTLS13 ||
		!slices.Equal(got.NextProtos, []string{Protocol}) ||
		got.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("%+v, %v", got, err)
	}
	fails = errors.New("no")
	if got, err := cfg.GetConfigForClient(nil); got != nil || err != fails {
		t.Error(got, err)
	}
}
