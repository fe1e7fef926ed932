package sectest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"time"
)

// CA is a certificate authority.
type CA struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
	Pool *x509.CertPool
}

// NewCA makes one.
func NewCA(name string) *CA {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, pub, key)
	check(err)
	c := &CA{key: key, Pool: x509.NewCertPool()}
	c.cert, err = x509.ParseCertificate(der)
	check(err)
	c.Pool.AddCert(c.cert)
	return c
}

// Issue makes a certificate for a host and a SPIFFE ID, either of which may be empty, that is good
// until a time.
func (c *CA) Issue(host, id string, until time.Time) tls.Certificate {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host + id},
		NotBefore: time.Unix(0, 0), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else if host != "" {
		t.DNSNames = []string{host}
	}
	if id != "" {
		u, err := url.Parse(id)
		check(err)
		t.URIs = []*url.URL{u}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, pub, c.key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Config returns a config of either side, with a certificate of this authority.
func (c *CA) Config(host, id string) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{c.Issue(host, id, time.Now().AddDate(1, 0, 0))},
		RootCAs:      c.Pool, ClientCAs: c.Pool,
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
