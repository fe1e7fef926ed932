package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/cli"
	"github.com/userspace-rpc/erpc/security"
	_ "github.com/userspace-rpc/erpc/security/chacha" // for processors without AES
)

// tlsFlags make all packets secure.
type tlsFlags struct {
	TLSCert    string `name:"tls-cert" help:"Encrypt: this side's certificate, PEM; see erpc cert." placeholder:"FILE"`
	TLSKey     string `name:"tls-key" help:"... its key, PEM." placeholder:"FILE"`
	TLSCA      string `name:"tls-ca" help:"Encrypt: who vouches for the other side, PEM. Servers then demand certificates of clients." placeholder:"FILE"`
	TLSName    string `name:"tls-name" help:"The name that the server's certificate must have, in place of the host that is dialled." placeholder:"NAME"`
	PSKFile    string `name:"psk-file" help:"Encrypt with a key that all members share: a line each, hexadecimal or base64." placeholder:"FILE"`
	TrustLocal bool   `name:"trust-local" help:"With those: shared memory between processes of one user goes without encryption."`

	keys *loadedKeys // nil: nothing is encrypted
}

// loadedKeys have the contents of the files of tlsFlags.
type loadedKeys struct {
	tls    *tls.Config
	psk    [][]byte
	keyLog io.Writer
}

// secure adds what was loaded to a configuration.
func (f *tlsFlags) secure(cfg *erpc.Config) {
	if k := f.keys; k != nil {
		cfg.TLS, cfg.PSK, cfg.KeyLog, cfg.TrustLocal = k.tls, k.psk, k.keyLog, f.TrustLocal
	}
}

// load reads the files. The environment's SSLKEYLOGFILE names one that gets all secrets.
func (f *tlsFlags) load() error {
	if f.keys != nil {
		return nil
	}
	withTLS := f.TLSCert != "" || f.TLSKey != "" || f.TLSCA != ""
	switch {
	case withTLS && f.PSKFile != "":
		return cli.Usagef("--psk-file stands beside --tls-cert, --tls-key or --tls-ca: choose one")
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return cli.Usagef("--tls-cert and --tls-key belong together")
	case !withTLS && f.PSKFile == "":
		if f.TrustLocal || f.TLSName != "" {
			return cli.Usagef("--trust-local and --tls-name need --tls-ca, --tls-cert or --psk-file")
		}
		return nil
	}
	f.keys = new(loadedKeys)
	if f.PSKFile != "" {
		file, err := os.ReadFile(f.PSKFile)
		if err == nil {
			f.keys.psk, err = security.ParsePSK(file)
		}
		if err != nil {
			return cli.Usagef("--psk-file %s: %v", f.PSKFile, err)
		}
	} else if err := f.loadTLS(); err != nil {
		return err
	}
	return f.openKeyLog()
}

func (f *tlsFlags) loadTLS() error {
	c := &tls.Config{ServerName: f.TLSName}
	f.keys.tls = c
	if f.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
		if err != nil {
			return cli.Usagef("--tls-cert %s, --tls-key %s: %v", f.TLSCert, f.TLSKey, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if f.TLSCA == "" {
		return nil
	}
	pem, err := os.ReadFile(f.TLSCA)
	if err != nil {
		return cli.Usagef("--tls-ca %s: %v", f.TLSCA, err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return cli.Usagef("--tls-ca %s: there is no certificate in it", f.TLSCA)
	}
	c.ClientCAs = c.RootCAs
	return nil
}

// openKeyLog opens the file of secrets, if the user asks for one.
func (f *tlsFlags) openKeyLog() error {
	name := os.Getenv("SSLKEYLOGFILE")
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return cli.Usagef("SSLKEYLOGFILE: %v", err)
	}
	f.keys.keyLog = file // open until the process ends
	return nil
}

// args are the flags as another process of this command gets them.
func (f *tlsFlags) args() (args []string) {
	for _, o := range []struct{ name, value string }{
		{"--tls-cert=", f.TLSCert}, {"--tls-key=", f.TLSKey}, {"--tls-ca=", f.TLSCA},
		{"--psk-file=", f.PSKFile},
	} {
		if o.value != "" {
			args = append(args, o.name+o.value)
		}
	}
	if f.TrustLocal {
		args = append(args, "--trust-local")
	}
	return args
}
