package sectest

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"
)

// Files writes an authority's certificate, and one of it for a host with its key, as PEM. It
// returns the flags of the project's commands that name them: certificate, key, authority.
func Files(dir, host string) (flags []string) {
	ca := NewCA("authority of " + dir)
	cert, key := ca.IssuePEM(host)
	for _, f := range []struct{ flag, text string }{
		{"tls-cert", cert}, {"tls-key", key}, {"tls-ca", ca.PEM()},
	} {
		path := filepath.Join(dir, f.flag+".pem")
		check(os.WriteFile(path, []byte(f.text), 0o600))
		flags = append(flags, "--"+f.flag+"="+path)
	}
	return flags
}

// PEM returns the authority's certificate.
func (c *CA) PEM() string { return encode("CERTIFICATE", c.cert.Raw) }

// IssuePEM makes a certificate for a host that is good for a year, and its key.
func (c *CA) IssuePEM(host string) (cert, key string) {
	made := c.Issue(host, "", time.Now().AddDate(1, 0, 0))
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	check(err)
	return encode("CERTIFICATE", made.Certificate[0]), encode("PRIVATE KEY", der)
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
