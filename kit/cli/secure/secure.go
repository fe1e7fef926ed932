package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/ownfile"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
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

	membersFlag, members string // see Members
	adminsFlag, admins   string // see Admins

	env  *cli.Env // of the command; nil: the files are read once
	keys *keys    // nil: nothing is encrypted
}

// AfterApply is called by kong when it has parsed a command line with these flags.
func (f *Flags) AfterApply(e *cli.Env) error {
	f.env = e
	return nil
}

// keys are those of the files of Flags.
type keys struct {
	tls    *tls.Config
	psk    [][]byte
	keyLog io.Writer
	ring   erpc.Keyring               // what the files have had since
	later  atomic.Pointer[tls.Config] // the same; nil: tls
	names  atomic.Pointer[keyNames]   // of the shared ones
}

// Wanted reports whether any packet is to be encrypted.
func (f *Flags) Wanted() bool { return f.WithTLS() || f.PSKFile != "" }

// WithTLS reports whether that is by certificates.
func (f *Flags) WithTLS() bool { return f.TLSCert != "" || f.TLSKey != "" || f.TLSCA != "" }

// Load reads the files, the first time that it is called. From then on a command reads them again
// when they change, or the process gets SIGHUP. The environment's SSLKEYLOGFILE names one that gets
// all secrets. The error is a [cli.UsageError].
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
	c, err := f.read()
	if err == nil {
		k.tls, k.psk, err = f.parse(&c)
	}
	if err == nil {
		k.keyLog, err = openKeyLog()
	}
	if err != nil {
		return err
	}
	k.names.Store(namesIn(&c))
	f.keys = k
	if f.env != nil {
		newReloader(f, c, f.env.Err).start(f.env.Ctx)
	}
	return nil
}

// Apply adds what was loaded to a configuration.
func (f *Flags) Apply(cfg *erpc.Config) {
	if k := f.keys; k != nil {
		cfg.TLS, cfg.PSK, cfg.KeyLog, cfg.TrustLocal = k.tls, k.psk, k.keyLog, f.TrustLocal
		cfg.Keyring = &k.ring
	}
}

// Server returns what was loaded for a server of TLS over TCP: it demands certificates of its
// clients if there is an authority for them. It is nil without certificates, and the caller's own.
func (f *Flags) Server() *tls.Config {
	if f.keys == nil || f.keys.tls == nil {
		return nil
	}
	k := f.keys
	c := k.overTCP(k.tls)
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if later := k.later.Load(); later != nil {
			return k.overTCP(later), nil
		}
		return nil, nil
	}
	return c
}

func (k *keys) overTCP(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.KeyLogWriter = tls.VersionTLS12, k.keyLog
	if c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

// contents are those of the files, "" of such as are not named.
type contents struct{ cert, key, ca, psk, members, admins string }

// most bounds each file, in bytes.
const most = 1 << 20

// read reads the files. Those of keys must be secret: others have no right to them. Who writes the
// authorities lets himself in.
func (f *Flags) read() (c contents, err error) {
	for _, o := range []struct {
		flag, file string
		rule       ownfile.Rule
		to         *string
	}{
		{"--tls-cert", f.TLSCert, ownfile.Any, &c.cert},
		{"--tls-key", f.TLSKey, ownfile.Secret, &c.key},
		{"--tls-ca", f.TLSCA, ownfile.Trusted, &c.ca},
		{"--psk-file", f.PSKFile, ownfile.Secret, &c.psk},
		{f.membersFlag, f.members, ownfile.Secret, &c.members},
		{f.adminsFlag, f.admins, ownfile.Secret, &c.admins},
	} {
		if o.file == "" {
			continue
		}
		text, err := ownfile.Read(o.file, o.rule, most)
		if err != nil {
			return contents{}, cli.Usagef("%s: %v", o.flag, err)
		}
		*o.to = string(text)
	}
	return c, nil
}

// parse makes of contents what a configuration has: either.
func (f *Flags) parse(c *contents) (t *tls.Config, psk [][]byte, err error) {
	if f.PSKFile != "" {
		psk, err = f.parsePSK(c)
		return nil, psk, err
	}
	t = &tls.Config{ServerName: f.TLSName}
	if f.TLSCert != "" {
		cert, err := tls.X509KeyPair([]byte(c.cert), []byte(c.key))
		if err == nil {
			err = whole(c.cert)
		}
		if err != nil {
			return nil, nil, cli.Usagef("--tls-cert %s, --tls-key %s: %v", f.TLSCert, f.TLSKey, err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	if f.TLSCA == "" {
		return t, nil, nil
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM([]byte(c.ca)) {
		return nil, nil, cli.Usagef("--tls-ca %s: there is no certificate in it", f.TLSCA)
	}
	if err := whole(c.ca); err != nil {
		return nil, nil, cli.Usagef("--tls-ca %s: %v", f.TLSCA, err)
	}
	t.ClientCAs = t.RootCAs
	return t, nil, nil
}

// whole says whether the end of a PEM file is missing: crypto/x509 takes what comes before.
func whole(file string) error {
	if strings.Count(file, "-----BEGIN ") != strings.Count(file, "-----END ") {
		return errors.New("a certificate in it has no end")
	}
	return nil
}

// openKeyLog opens the file of secrets, if the user asks for one. It is open until the process
// ends.
func openKeyLog() (io.Writer, error) {
	name := os.Getenv("SSLKEYLOGFILE")
	if name == "" {
		return nil, nil
	}
	file, err := outfile.Open(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, cli.Usagef("SSLKEYLOGFILE: %v", err)
	}
	return file, nil
}

// Leaf returns the own certificate as it was loaded first, nil without one.
func (f *Flags) Leaf() *x509.Certificate {
	if f.keys == nil || f.keys.tls == nil || len(f.keys.tls.Certificates) == 0 {
		return nil
	}
	return f.keys.tls.Certificates[0].Leaf
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
