// Package secure has the flags with which the project's commands encrypt: certificates and their
// authority, a file of shared keys. It reads the files, says in one line what is wrong with them,
// takes them anew when they change or SIGHUP comes, and opens the key log that the environment
// names. It links ChaCha20-Poly1305, for processors without AES. Only commands import it.
//
// # Map
//
//	owns       the flags of certificates and keys
//	called by  commands
//	never      a secret is printed
package secure
