package secure

import (
	"slices"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/security"
)

// Members adds a file of shared keys that members have and clients have not, before Load. Its first
// key is the one that this side uses where it dials, and must not be clients'; others may be for as
// long as members go over to a new one. Flag is its name on the command line.
func (f *Flags) Members(flag, file string) { f.membersFlag, f.members = flag, file }

// Admins adds a file of shared keys that admins alone have, before Load: none of them may be in
// another file. This side takes them, and uses none; flag is its name on the command line.
func (f *Flags) Admins(flag, file string) { f.adminsFlag, f.admins = flag, file }

// keyNames are the names of shared keys, as security.PSKName says, by their files.
type keyNames struct{ clients, members, admins []string }

// namesIn returns the names of contents that parse takes.
func namesIn(c *contents) *keyNames {
	names := func(file string) (list []string) {
		keys, _ := security.ParsePSK([]byte(file)) // no file has no key
		for _, key := range keys {
			list = append(list, security.PSKName(key))
		}
		return list
	}
	return &keyNames{names(c.psk), names(c.members), names(c.admins)}
}

// loaded returns the names of the keys that were loaded last.
func (f *Flags) loaded() *keyNames {
	if f.keys == nil {
		return new(keyNames)
	}
	return f.keys.names.Load()
}

// IsMember reports whether the shared key of this name is one of the file of Members, as it was
// loaded last.
func (f *Flags) IsMember(name string) bool { return slices.Contains(f.loaded().members, name) }

// IsAdmin reports whether the shared key of this name is one of the file of Admins, as it was
// loaded last.
func (f *Flags) IsAdmin(name string) bool { return slices.Contains(f.loaded().admins, name) }

// MembersShared reports whether a key of the file of Members is one of --psk-file, too: then
// clients have it.
func (f *Flags) MembersShared() bool { return slices.ContainsFunc(f.loaded().clients, f.IsMember) }

// parsePSK makes of contents the list of shared keys, the one to dial with first.
func (f *Flags) parsePSK(c *contents) (list [][]byte, err error) {
	files := map[string]string{} // by the name of a key: whose it is
	for _, o := range []struct{ flag, file, text string }{
		{f.membersFlag, f.members, c.members}, {"--psk-file", f.PSKFile, c.psk},
		{f.adminsFlag, f.admins, c.admins},
	} {
		if o.file == "" {
			continue
		}
		keys, err := security.ParsePSK([]byte(o.text))
		if err != nil {
			return nil, cli.Usagef("%s %s: %v", o.flag, o.file, err)
		}
		for i, key := range keys {
			name := security.PSKName(key)
			if of := files[name]; of != "" && of != o.flag && o.flag == f.adminsFlag {
				return nil, cli.Usagef("%s %s: key %d is one of %s, too, so all who have it would be "+
					"admins: put a new one here", o.flag, o.file, i+1, of)
			}
			if len(list) > 0 && o.flag == "--psk-file" && name == security.PSKName(list[0]) {
				return nil, cli.Usagef("%s %s: key 1, which members use, is one of --psk-file, too, so "+
					"all clients would be members: put a new one before it", f.membersFlag, f.members)
			}
			files[name] = o.flag
		}
		list = append(list, keys...)
	}
	return list, nil
}
