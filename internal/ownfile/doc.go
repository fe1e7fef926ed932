// Package ownfile checks whose files and folders are before they are used, as sshd does with
// StrictModes: a file is opened, what was opened is looked at, and that is what is used. A name
// says nothing about a file, since in a folder like /tmp anybody may have taken it.
//
// # Map
//
//	owns       the rules of owners and modes
//	called by  what meets others in a folder, or reads secrets from files
//	never      a file that another user may have put there, or changed, passes for one's own
//
// Root is trusted, as it can do everything anyhow. Systems without users and modes of this kind
// have no checks: there [Check] returns nil.
package ownfile
