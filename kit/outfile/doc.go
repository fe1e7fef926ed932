// Package outfile opens the files that a program writes under names that its user gave.
//
// In a folder like /tmp another user may have taken the name before: by a file of his own, which
// would get what is written; by a symbolic link or a second name, which would have a program of
// root empty any file of the system. The kernel's fs.protected_regular and fs.protected_symlinks
// stop most of this, where they are on. This package has one rule that does not depend on them.
//
// A folder is exposed if others may put something there: it belongs to neither this user nor root,
// or its group or all may write. Of what is in an exposed folder
//
//   - a link is followed only if it is this user's or root's, on the whole way to the file
//   - a file that is there is taken only if it is this user's or root's and has no other name. If
//     what is written is for all to read, it may be the folder's owner's, too.
//
// Anything else is an [OthersError], and the file is as it was. A file that is not there is made,
// and nobody else can have made it. What is in folders that are not exposed was put there by this
// user or root, and is taken as it is. So are the files of a process that /proc has links to.
//
// # Map
//
//	owns       the rule of files to write
//	called by  commands, and what writes files under a user's names for them
//	never      writes into a file that another user may have put there
//
// On Linux the way to the file is walked by open folders, so a link that is swapped meanwhile is
// seen. On other systems of Unix's kind only the last name is looked at. Windows has no such check.
// A second name of this user's own file that is removed again while the file is opened is not seen:
// fs.protected_hardlinks keeps others from making one, and is on by default.
// Folders of other users are entered: what they do with a file's name later is theirs.
package outfile
