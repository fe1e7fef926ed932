// The shim between Go and libibverbs: plain functions and flat structs of numbers.
// Functions return 0 or more, or a negative errno. Handles are the library's pointers, as
// numbers where calls are frequent: cgo looks at each pointer that it passes.
#ifndef EV_SHIM_H
#define EV_SHIM_H
#include <stdint.h>

struct ev_piece { uint64_t addr; uint32_t len, lkey; };
struct ev_send {
	uint64_t id, ah, remote;
	struct ev_piece piece[2];
	uint32_t opcode, flags, num, qpn, qkey, rkey, imm, pad;
};
struct ev_recv { uint64_t id; struct ev_piece piece; };
struct ev_wc { uint64_t id; uint32_t status, opcode, len, imm, qpn, src_qp, flags, slid; };
struct ev_ah {
	uint8_t gid[16];
	uint32_t flow, dlid, sgid, hop, tclass, port, sl, global;
};
struct ev_qp_attr {
	uint32_t state, from, port, pkey, qkey, access, mtu, dest_qpn, rq_psn, max_serve, min_rnr;
	uint32_t sq_psn, max_reads, timeout, retry, rnr_retry;
	struct ev_ah ah;
};
struct ev_device_attr { uint32_t vendor, part, qp, wr, sge, cq, cqe, mr, ah, ports, reads, served; };
struct ev_port_attr { uint32_t state, max_mtu, active_mtu, link_layer, gids, pkeys, lid, width, speed; };
struct ev_qp_init {
	void *send_cq, *recv_cq;
	uint32_t type, max_send, max_recv, max_sge, max_inline, sig_all;
};
struct ev_event { uint32_t code, port; char name[48]; };

// 0, or 1: no header at build time, or 2: no library; why says more.
int ev_load(char *why, int len);

// Writes the names of the devices, each ended by a zero byte, and returns how many.
int ev_devices(char *names, int len);
int ev_open(const char *name, void **ctx);
int ev_close(void *ctx);
int ev_query_device(void *ctx, struct ev_device_attr *out);
int ev_query_port(void *ctx, int port, struct ev_port_attr *out);
int ev_query_gid(void *ctx, int port, int index, uint8_t *out);
int ev_async_fd(void *ctx);
int ev_async_event(void *ctx, struct ev_event *out);

int ev_alloc_pd(void *ctx, void **pd);
int ev_dealloc_pd(void *pd);
int ev_reg_mr(void *pd, uint64_t addr, uint64_t len, uint32_t access, void **mr, uint32_t *lkey, uint32_t *rkey);
int ev_dereg_mr(void *mr);
int ev_create_ah(void *pd, struct ev_ah *a, void **ah);
int ev_destroy_ah(void *ah);

int ev_create_channel(void *ctx, void **ch, int *fd);
int ev_destroy_channel(void *ch);
// Takes the events that wait in the channel, whose fd does not block, and returns how many.
int ev_drain_channel(uintptr_t ch);
int ev_create_cq(void *ctx, int depth, void *ch, void **cq, int *got);
int ev_destroy_cq(void *cq);
int ev_arm_cq(uintptr_t cq);
int ev_poll_cq(uintptr_t cq, struct ev_wc *v, int n);

int ev_create_qp(void *pd, struct ev_qp_init *init, void **qp, uint32_t *num);
int ev_modify_qp(void *qp, uint32_t type, struct ev_qp_attr *a);
int ev_destroy_qp(void *qp);
// Return how many were posted; err gets a negative errno if that is not all.
int ev_post_send(uintptr_t qp, int ud, struct ev_send *v, int n, int *err);
int ev_post_recv(uintptr_t qp, struct ev_recv *v, int n, int *err);

const char *ev_status(int status);
#endif
