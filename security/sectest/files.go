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
	c := ca.Issue(host, "", time.Now().AddDate(1, 0, 0))
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	check(err)
	for _, f := range []struct {
		flag, kind string
		der        []byte
	}{
		{"tls-cert", "CERTIFICATE", c.Certificate[0]}, {"tls-key", "PRIVATE KEY", key},
		{"tls-ca", "CERTIFICATE", ca.cert.Raw},
	} {
		path := filepath.Join(dir, f.flag+".pem")
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		check(os.WriteFile(path, text, 0o600))
		flags = append(flags, "--"+f.flag+"="+path)
	}
	return flags
}
