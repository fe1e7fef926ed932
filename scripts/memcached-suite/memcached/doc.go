// Command memcached stands for memcached where its own tests start it: it runs the program that
// ERPC_KV names, with the flags that mean what memcached's options do.
package main
