package echo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// The peers with mutual TLS 1.3: X25519, Ed25519 certificates, AES-128-GCM in both.
var (
	grpcTLSPeer = Peer{
		Name: "grpc-go-tls", Module: "google.golang.org/grpc", Transport: "tcp", Secure: true,
		Listen: func(z Sizes) (Server, error) {
			return serveGRPC("127.0.0.1:0", z, credentials.NewTLS(TLSConfig()))
		},
		Dial: func(_ context.Context, addr string, z Sizes) (Conn, error) {
			return clientGRPC(addr, z, credentials.NewTLS(TLSConfig()))
		},
	}
	erpcTLSPeer = Peer{
		Name: "erpc-client-tls", Module: "github.com/userspace-rpc/erpc", Transport: "udp", Secure: true,
		Listen: func(z Sizes) (Server, error) {
			cfg := erpcConfig(z)
			cfg.TLS = TLSConfig()
			return serveERPC("127.0.0.1:0", z, cfg)
		},
		Dial: func(ctx context.Context, addr string, z Sizes) (Conn, error) {
			cfg := erpcConfig(z)
			cfg.TLS = TLSConfig()
			return clientERPC(ctx, addr, cfg)
		},
	}
)

// TLSConfig returns the config of either side. All processes make the same authority, from a seed:
// it vouches for nobody but these benchmarks.
func TLSConfig() *tls.Config {
	seed := sha256.Sum256([]byte("labs/peers"))
	key := ed25519.NewKeyFromSeed(seed[:])
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "labs/peers"}, IsCA: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	node := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	issue := func(c *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), key)
		if err != nil {
			panic("bench: " + err.Error()) // the templates are good
		}
		return der
	}
	parsed, err := x509.ParseCertificate(issue(ca))
	if err != nil {
		panic("bench: " + err.Error()) // it was made above
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{issue(node)}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
	}
}
