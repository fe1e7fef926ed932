package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type certCmd struct {
	Names []string `arg:"" optional:"" help:"Host names, IP addresses and SPIFFE IDs of the certificate; without any only the authority is made."`
	Dir   string   `default:"." help:"Where ca.pem and ca-key.pem are, or are made; default the current directory." placeholder:"DIR"`
	Out   string   `default:"node" help:"Name of the files: NAME.pem and NAME-key.pem; default ${default}." placeholder:"NAME"`
	Days  int      `default:"30" help:"How long the certificate is good; default ${default}." placeholder:"N"`
}

// Help is shown by --help.
func (certCmd) Help() string {
	return `Examples:
  erpc cert 127.0.0.1 localhost --out server
  erpc cert spiffe://lab/client --out client
  erpc server --tls-cert server.pem --tls-key server-key.pem --tls-ca ca.pem
  erpc ping 127.0.0.1 --tls-cert client.pem --tls-key client-key.pem --tls-ca ca.pem

For a lab: the authority's key lies in a file. Nothing that exists is written over.`
}

// Run implements the subcommand.
func (c *certCmd) Run(e *env) error {
	if c.Days < 1 {
		return cli.Usagef("--days %d: want 1 or more", c.Days)
	}
	ca, err := c.authority(e)
	if err != nil || len(c.Names) == 0 {
		return err
	}
	t := certTemplate("erpc lab "+c.Out, time.Duration(c.Days)*24*time.Hour)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, name := range c.Names {
		u, err := url.Parse(name)
		switch ip := net.ParseIP(name); {
		case ip != nil:
			t.IPAddresses = append(t.IPAddresses, ip)
		case err == nil && u.Scheme == "spiffe" && u.Host != "":
			t.URIs = append(t.URIs, u)
		case err == nil && u.Scheme == "":
			t.DNSNames = append(t.DNSNames, name)
		default:
			return cli.Usagef("%s is no host name, IP address or SPIFFE ID", name)
		}
	}
	parent, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return err
	}
	return c.issue(e, c.Out, t, parent, ca.PrivateKey)
}

// authority reads the authority's files, or makes them.
func (c *certCmd) authority(e *env) (tls.Certificate, error) {
	cert, key := filepath.Join(c.Dir, "ca.pem"), filepath.Join(c.Dir, "ca-key.pem")
	ca, err := tls.LoadX509KeyPair(cert, key)
	if !errors.Is(err, fs.ErrNotExist) {
		return ca, err
	}
	t := certTemplate("erpc lab authority", 10*365*24*time.Hour)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	if err = c.issue(e, "ca", t, t, nil); err != nil {
		return ca, err
	}
	return tls.LoadX509KeyPair(cert, key)
}

func certTemplate(name string, life time.Duration) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic("erpc: no random numbers: " + err.Error()) // crypto/rand says it never returns an error
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
	}
}

// issue makes a key and its certificate, signed by signer, itself if that is nil.
func (c *certCmd) issue(e *env, name string, t, parent *x509.Certificate, signer any) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, kind string
		mode       fs.FileMode
		der        []byte
	}{
		{name + "-key.pem", "PRIVATE KEY", 0o600, pkcs8}, {name + ".pem", "CERTIFICATE", 0o644, der},
	} {
		path := filepath.Join(c.Dir, f.name)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
		if err != nil {
			return err
		}
		err = pem.Encode(file, &pem.Block{Type: f.kind, Bytes: f.der})
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		fmt.Fprintln(e.out, path)
	}
	return nil
}
