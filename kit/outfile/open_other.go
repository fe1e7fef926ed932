//go:build !unix

package outfile

import (
	"io/fs"
	"os"
)

func open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
