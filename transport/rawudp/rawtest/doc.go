// Package rawtest is what the tests of all frame devices share: packets and RPCs across a pair of links, traffic
// that is not for an endpoint, links that go down, come back or are deleted. Tests in the packages of the devices use it; nothing else does.
package rawtest
