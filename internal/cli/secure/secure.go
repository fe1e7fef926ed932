package secure

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

// Flags make all packets secure. A struct of a command's flags embeds them.
type Flags struct {
	TLSCert    string `name:"tls-cert" help:"Encrypt: own certificate, PEM." placeholder:"FILE"`
	TLSKey     string `name:"tls-key" help:"... its key, PEM." placeholder:"FILE"`
	TLSCA      string `name:"tls-ca" help:"... authority of peers, clients too." placeholder:"FILE"`
	TLSName    string `name:"tls-name" help:"... another name of the server." placeholder:"NAME"`
	PSKFile    string `name:"psk-file" help:"Encrypt: shared keys, hex or base64." placeholder:"FILE"`
	TrustLocal bool   `name:"trust-local" help:"... but not shared memory of one user."`

	keys *keys // nil: nothing is encrypted
}

// keys have the contents of the files of Flags.
type keys struct {
	tls    *tls.Config
	psk    [][]byte
	keyLog io.Writer
}

// Wanted reports whether any packet is to be encrypted.
func (f *Flags) Wanted() bool { return f.WithTLS() || f.PSKFile != "" }

// WithTLS reports whether that is by certificates.
func (f *Flags) WithTLS() bool { return f.TLSCert != "" || f.TLSKey != "" || f.TLSCA != "" }

// Load reads the files, the first time that it is called. The environment's SSLKEYLOGFILE names
// one that gets all secrets. The error is a [cli.UsageError].
func (f *Flags) Load() error {
	if f.keys != nil {
		return nil
	}
	switch {
	case f.WithTLS() && f.PSKFile != "":
		return cli.Usagef("--psk-file stands beside --tls-cert, --tls-key or --tls-ca: choose one")
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return cli.Usagef("--tls-cert and --tls-key belong together: give both")
	case !f.Wanted():
		if f.TrustLocal || f.TLSName != "" {
			return cli.Usagef("--trust-local and --tls-name need --tls-ca, --tls-cert or --psk-file")
		}
		return nil
	}
	k := new(keys)
	var err error
	if f.PSKFile != "" {
		k.psk, err = f.loadPSK()
	} else {
		k.tls, err = f.loadTLS()
	}
	if err == nil {
		k.keyLog, err = openKeyLog()
	}
	if err == nil {
		f.keys = k
	}
	return err
}

// Apply adds what was loaded to a configuration.
func (f *Flags) Apply(cfg *erpc.Config) {
	if k := f.keys; k != nil {
		cfg.TLS, cfg.PSK, cfg.KeyLog, cfg.TrustLocal = k.tls, k.psk, k.keyLog, f.TrustLocal
	}
}

// Server returns what was loaded for a server of TLS over TCP: it demands certificates of its
// clients if there is an authority for them. It is nil without certificates, and the caller's own.
func (f *Flags) Server() *tls.Config {
	if f.keys == nil || f.keys.tls == nil {
		return nil
	}
	c := f.keys.tls.Clone()
	c.MinVersion, c.KeyLogWriter = tls.VersionTLS12, f.keys.keyLog
	if c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

func (f *Flags) loadPSK() ([][]byte, error) {
	file, err := os.ReadFile(f.PSKFile)
	if err != nil {
		return nil, cli.Usagef("--psk-file: %v", err)
	}
	psk, err := security.ParsePSK(file)
	if err != nil {
		return nil, cli.Usagef("--psk-file %s: %v", f.PSKFile, err)
	}
	return psk, nil
}

func (f *Flags) loadTLS() (*tls.Config, error) {
	c := &tls.Config{ServerName: f.TLSName}
	if f.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
		if err != nil {
			return nil, cli.Usagef("--tls-cert %s, --tls-key %s: %v", f.TLSCert, f.TLSKey, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if f.TLSCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.TLSCA)
	if err != nil {
		return nil, cli.Usagef("--tls-ca: %v", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, cli.Usagef("--tls-ca %s: there is no certificate in it", f.TLSCA)
	}
	c.ClientCAs = c.RootCAs
	return c, nil
}

// openKeyLog opens the file of secrets, if the user asks for one. It is open until the process
// ends.
func openKeyLog() (io.Writer, error) {
	name := os.Getenv("SSLKEYLOGFILE")
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, cli.Usagef("SSLKEYLOGFILE: %v", err)
	}
	return file, nil
}

// Args are the flags as another process of this command gets them.
func (f *Flags) Args() (args []string) {
	for _, o := range []struct{ name, value string }{
		{"--tls-cert=", f.TLSCert}, {"--tls-key=", f.TLSKey}, {"--tls-ca=", f.TLSCA},
		{"--tls-name=", f.TLSName}, {"--psk-file=", f.PSKFile},
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
