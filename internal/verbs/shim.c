//go:build cgo && linux

#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ERPC_NO_VERBS_HEADER is for testing the stub where the header is installed.
#if defined(__has_include) && !defined(ERPC_NO_VERBS_HEADER)
#if __has_include(<infiniband/verbs.h>)
#define EV_HAVE 1
#endif
#endif

#ifdef EV_HAVE

#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>

#undef ibv_reg_mr
#undef ibv_query_port

// The library's functions, found at run time. Their types come from the header.
#define EV_FUNCTIONS \
	F(ibv_get_device_list) F(ibv_free_device_list) F(ibv_get_device_name) F(ibv_open_device) F(ibv_close_device) \
	F(ibv_query_device) F(ibv_query_port) F(ibv_query_gid) F(ibv_get_async_event) F(ibv_ack_async_event) \
	F(ibv_alloc_pd) F(ibv_dealloc_pd) F(ibv_reg_mr) F(ibv_dereg_mr) F(ibv_create_ah) F(ibv_destroy_ah) \
	F(ibv_create_comp_channel) F(ibv_destroy_comp_channel) F(ibv_get_cq_event) F(ibv_ack_cq_events) \
	F(ibv_create_cq) F(ibv_destroy_cq) F(ibv_create_qp) F(ibv_modify_qp) F(ibv_destroy_qp) \
	F(ibv_wc_status_str) F(ibv_event_type_str)
#define F(name) static __typeof__(&name) p_##name;
EV_FUNCTIONS
#undef F

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];

static void load(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		const char *why = dlerror();
		snprintf(missing, sizeof(missing), "%s", why ? why : "dlopen of libibverbs.so.1 failed");
		return;
	}
#define F(name) \
	p_##name = (__typeof__(p_##name))dlsym(lib, #name); \
	if (!p_##name) \
		snprintf(missing, sizeof(missing), "libibverbs.so.1 has no function %s", #name);
	EV_FUNCTIONS
#undef F
}

int ev_load(char *why, int len)
{
	pthread_once(&once, load);
	if (!missing[0])
		return 0;
	snprintf(why, len, "%s", missing);
	return 2;
}

// lost is the error of a call that returned NULL.
static int lost(void) { return errno ? -errno : -EIO; }

// code is the error of a call that returns an errno, or -1 and sets errno.
static int code(int rc) { return rc < 0 ? lost() : -rc; }

int ev_devices(char *names, int len)
{
	int n = 0, used = 0, i;
	struct ibv_device **list = p_ibv_get_device_list(&n);
	if (!list)
		return lost();
	for (i = 0; i < n; i++) {
		const char *name = p_ibv_get_device_name(list[i]);
		int size = (int)strlen(name) + 1;
		if (used + size > len)
			break;
		memcpy(names + used, name, size);
		used += size;
	}
	p_ibv_free_device_list(list);
	return i;
}

int ev_open(const char *name, void **ctx)
{
	int n = 0, i, rc = -ENODEV;
	struct ibv_device **list = p_ibv_get_device_list(&n);
	if (!list)
		return lost();
	for (i = 0; i < n; i++) {
		if (strcmp(p_ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		*ctx = p_ibv_open_device(list[i]);
		rc = *ctx ? 0 : lost();
		break;
	}
	p_ibv_free_device_list(list);
	return rc;
}

int ev_close(void *ctx) { return code(p_ibv_close_device(ctx)); }

int ev_query_device(void *ctx, struct ev_device_attr *out)
{
	struct ibv_device_attr a;
	int rc = p_ibv_query_device(ctx, &a);
	if (rc)
		return code(rc);
	*out = (struct ev_device_attr){
		.vendor = a.vendor_id, .part = a.vendor_part_id, .qp = a.max_qp, .wr = a.max_qp_wr, .sge = a.max_sge,
		.cq = a.max_cq, .cqe = a.max_cqe, .mr = a.max_mr, .ah = a.max_ah, .ports = a.phys_port_cnt,
		.reads = a.max_qp_init_rd_atom, .served = a.max_qp_rd_atom,
	};
	return 0;
}

static uint32_t mtu_bytes(int mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0; }

int ev_query_port(void *ctx, int port, struct ev_port_attr *out)
{
	struct ibv_port_attr a;
	struct verbs_context *v = verbs_get_ctx_op((struct ibv_context *)ctx, query_port);
	int rc;
	memset(&a, 0, sizeof(a));
	// As the header does it: the exported function fills in less.
	if (v)
		rc = v->query_port(ctx, port, &a, sizeof(a));
	else
		rc = p_ibv_query_port(ctx, port, (struct _compat_ibv_port_attr *)&a);
	if (rc)
		return code(rc);
	*out = (struct ev_port_attr){
		.state = a.state, .max_mtu = mtu_bytes(a.max_mtu), .active_mtu = mtu_bytes(a.active_mtu),
		.link_layer = a.link_layer, .gids = a.gid_tbl_len, .pkeys = a.pkey_tbl_len, .lid = a.lid,
		.width = a.active_width, .speed = a.active_speed,
	};
	return 0;
}

int ev_query_gid(void *ctx, int port, int index, uint8_t *out)
{
	union ibv_gid g;
	int rc = p_ibv_query_gid(ctx, port, index, &g);
	if (rc)
		return code(rc);
	memcpy(out, g.raw, 16);
	return 0;
}

int ev_async_fd(void *ctx) { return ((struct ibv_context *)ctx)->async_fd; }

int ev_async_event(void *ctx, struct ev_event *out)
{
	struct ibv_async_event e;
	int rc;
	errno = 0;
	rc = p_ibv_get_async_event(ctx, &e);
	if (rc)
		return lost();
	out->code = e.event_type;
	out->port = 0;
	if ((e.event_type >= IBV_EVENT_PORT_ACTIVE && e.event_type <= IBV_EVENT_SM_CHANGE) ||
	    e.event_type == IBV_EVENT_CLIENT_REREGISTER || e.event_type == IBV_EVENT_GID_CHANGE)
		out->port = e.element.port_num;
	snprintf(out->name, sizeof(out->name), "%s", p_ibv_event_type_str(e.event_type));
	p_ibv_ack_async_event(&e);
	return 0;
}

int ev_alloc_pd(void *ctx, void **pd)
{
	errno = 0;
	*pd = p_ibv_alloc_pd(ctx);
	return *pd ? 0 : lost();
}

int ev_dealloc_pd(void *pd) { return code(p_ibv_dealloc_pd(pd)); }

int ev_reg_mr(void *pd, uint64_t addr, uint64_t len, uint32_t access, void **mr, uint32_t *lkey, uint32_t *rkey)
{
	struct ibv_mr *m;
	errno = 0;
	m = p_ibv_reg_mr(pd, (void *)(uintptr_t)addr, len, (int)access);
	if (!m)
		return lost();
	*mr = m;
	*lkey = m->lkey;
	*rkey = m->rkey;
	return 0;
}

int ev_dereg_mr(void *mr) { return code(p_ibv_dereg_mr(mr)); }

static void fill_ah(struct ibv_ah_attr *o, const struct ev_ah *a)
{
	memset(o, 0, sizeof(*o));
	o->dlid = a->dlid;
	o->sl = a->sl;
	o->port_num = a->port;
	o->is_global = a->global;
	if (a->global) {
		memcpy(o->grh.dgid.raw, a->gid, 16);
		o->grh.flow_label = a->flow;
		o->grh.sgid_index = a->sgid;
		o->grh.hop_limit = a->hop;
		o->grh.traffic_class = a->tclass;
	}
}

int ev_create_ah(void *pd, struct ev_ah *a, void **ah)
{
	struct ibv_ah_attr attr;
	fill_ah(&attr, a);
	errno = 0;
	*ah = p_ibv_create_ah(pd, &attr);
	return *ah ? 0 : lost();
}

int ev_destroy_ah(void *ah) { return code(p_ibv_destroy_ah(ah)); }

int ev_create_channel(void *ctx, void **ch, int *fd)
{
	struct ibv_comp_channel *c;
	errno = 0;
	c = p_ibv_create_comp_channel(ctx);
	if (!c)
		return lost();
	*ch = c;
	*fd = c->fd;
	return 0;
}

int ev_destroy_channel(void *ch) { return code(p_ibv_destroy_comp_channel(ch)); }

int ev_drain_channel(uintptr_t ch)
{
	struct ibv_cq *cq;
	void *user;
	int n = 0;
	while (n < 64 && p_ibv_get_cq_event((struct ibv_comp_channel *)ch, &cq, &user) == 0) {
		p_ibv_ack_cq_events(cq, 1);
		n++;
	}
	return n;
}

int ev_create_cq(void *ctx, int depth, void *ch, void **cq, int *got)
{
	struct ibv_cq *c;
	errno = 0;
	c = p_ibv_create_cq(ctx, depth, NULL, ch, 0);
	if (!c)
		return lost();
	*cq = c;
	*got = c->cqe;
	return 0;
}

int ev_destroy_cq(void *cq) { return code(p_ibv_destroy_cq(cq)); }

int ev_arm_cq(uintptr_t cq) { return code(ibv_req_notify_cq((struct ibv_cq *)cq, 0)); }

// Work requests and completions are converted in blocks of this many, on the stack.
#define EV_BLOCK 64

int ev_poll_cq(uintptr_t cq, struct ev_wc *v, int n)
{
	struct ibv_wc wc[EV_BLOCK];
	int done = 0, i, got, want;
	while (done < n) {
		want = n - done < EV_BLOCK ? n - done : EV_BLOCK;
		got = ibv_poll_cq((struct ibv_cq *)cq, want, wc);
		if (got < 0)
			return done ? done : code(got);
		for (i = 0; i < got; i++) {
			struct ev_wc *o = &v[done + i];
			o->id = wc[i].wr_id;
			o->status = wc[i].status;
			o->opcode = wc[i].opcode;
			o->len = wc[i].byte_len;
			o->imm = ntohl(wc[i].imm_data);
			o->qpn = wc[i].qp_num;
			o->src_qp = wc[i].src_qp;
			o->flags = wc[i].wc_flags;
			o->slid = wc[i].slid;
		}
		done += got;
		if (got < want)
			break;
	}
	return done;
}

int ev_create_qp(void *pd, struct ev_qp_init *in, void **qp, uint32_t *num)
{
	struct ibv_qp_init_attr a;
	struct ibv_qp *q;
	memset(&a, 0, sizeof(a));
	a.send_cq = in->send_cq;
	a.recv_cq = in->recv_cq;
	a.qp_type = in->type;
	a.sq_sig_all = in->sig_all;
	a.cap.max_send_wr = in->max_send;
	a.cap.max_recv_wr = in->max_recv;
	a.cap.max_send_sge = in->max_sge;
	a.cap.max_recv_sge = 1;
	a.cap.max_inline_data = in->max_inline;
	errno = 0;
	q = p_ibv_create_qp(pd, &a);
	if (!q)
		return lost();
	*qp = q;
	*num = q->qp_num;
	in->max_send = a.cap.max_send_wr;
	in->max_recv = a.cap.max_recv_wr;
	in->max_inline = a.cap.max_inline_data;
	return 0;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	int m = IBV_MTU_256;
	while (m < IBV_MTU_4096 && (128u << (m + 1)) <= bytes)
		m++;
	return m;
}

// mask says which attributes each step needs, see ibv_modify_qp(3).
static int mask(uint32_t type, const struct ev_qp_attr *a)
{
	int m = IBV_QP_STATE;
	switch (a->state) {
	case IBV_QPS_INIT:
		m |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		return m | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type == IBV_QPT_UD)
			return m;
		m |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		return type == IBV_QPT_RC ? m | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : m;
	case IBV_QPS_RTS:
		if (a->from == IBV_QPS_SQE)
			return m | IBV_QP_CUR_STATE;
		m |= IBV_QP_SQ_PSN;
		if (type == IBV_QPT_RC)
			m |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return m;
}

int ev_modify_qp(void *qp, uint32_t type, struct ev_qp_attr *in)
{
	struct ibv_qp_attr a;
	memset(&a, 0, sizeof(a));
	a.qp_state = in->state;
	a.cur_qp_state = in->from;
	a.port_num = in->port;
	a.pkey_index = in->pkey;
	a.qkey = in->qkey;
	a.qp_access_flags = in->access;
	a.path_mtu = mtu_code(in->mtu);
	a.dest_qp_num = in->dest_qpn;
	a.rq_psn = in->rq_psn;
	a.sq_psn = in->sq_psn;
	a.max_dest_rd_atomic = in->max_serve;
	a.max_rd_atomic = in->max_reads;
	a.min_rnr_timer = in->min_rnr;
	a.timeout = in->timeout;
	a.retry_cnt = in->retry;
	a.rnr_retry = in->rnr_retry;
	fill_ah(&a.ah_attr, &in->ah);
	return code(p_ibv_modify_qp(qp, &a, mask(type, in)));
}

int ev_destroy_qp(void *qp) { return code(p_ibv_destroy_qp(qp)); }

// fill_send makes w, with pieces s, of o.
static void fill_send(struct ibv_send_wr *w, struct ibv_sge *s, const struct ev_send *o, int ud)
{
	uint32_t k, num = o->num < 2 ? o->num : 2;
	for (k = 0; k < num; k++)
		s[k] = (struct ibv_sge){o->piece[k].addr, o->piece[k].len, o->piece[k].lkey};
	w->wr_id = o->id;
	w->sg_list = s;
	w->num_sge = num;
	w->opcode = o->opcode;
	w->send_flags = o->flags;
	w->imm_data = htonl(o->imm);
	if (ud) {
		w->wr.ud.ah = (struct ibv_ah *)(uintptr_t)o->ah;
		w->wr.ud.remote_qpn = o->qpn;
		w->wr.ud.remote_qkey = o->qkey;
	} else {
		w->wr.rdma.remote_addr = o->remote;
		w->wr.rdma.rkey = o->rkey;
	}
}

int ev_post_send(uintptr_t qp, int ud, struct ev_send *v, int n, int *err)
{
	struct ibv_send_wr wr[EV_BLOCK], *bad;
	struct ibv_sge sge[EV_BLOCK][2];
	int done = 0, i, rc, want;
	while (done < n) {
		want = n - done < EV_BLOCK ? n - done : EV_BLOCK;
		for (i = 0; i < want; i++) {
			fill_send(&wr[i], sge[i], &v[done + i], ud);
			wr[i].next = i + 1 < want ? &wr[i + 1] : NULL;
		}
		bad = NULL;
		rc = ibv_post_send((struct ibv_qp *)qp, wr, &bad);
		if (rc) {
			*err = code(rc);
			return done + (bad ? (int)(bad - wr) : 0);
		}
		done += want;
	}
	return done;
}

int ev_post_recv(uintptr_t qp, struct ev_recv *v, int n, int *err)
{
	struct ibv_recv_wr wr[EV_BLOCK], *bad;
	struct ibv_sge sge[EV_BLOCK];
	int done = 0, i, rc, want;
	while (done < n) {
		want = n - done < EV_BLOCK ? n - done : EV_BLOCK;
		for (i = 0; i < want; i++) {
			struct ev_recv *o = &v[done + i];
			sge[i] = (struct ibv_sge){o->piece.addr, o->piece.len, o->piece.lkey};
			wr[i] = (struct ibv_recv_wr){
				.wr_id = o->id, .next = i + 1 < want ? &wr[i + 1] : NULL, .sg_list = &sge[i], .num_sge = 1};
		}
		bad = NULL;
		rc = ibv_post_recv((struct ibv_qp *)qp, wr, &bad);
		if (rc) {
			*err = code(rc);
			return done + (bad ? (int)(bad - wr) : 0);
		}
		done += want;
	}
	return done;
}

const char *ev_status(int status) { return p_ibv_wc_status_str(status); }

#else // no header: say so

#define EV_NONE(decl) decl { return -ENOSYS; }

int ev_load(char *why, int len)
{
	snprintf(why, len, "built without the header <infiniband/verbs.h>");
	return 1;
}

EV_NONE(int ev_devices(char *names, int len))
EV_NONE(int ev_open(const char *name, void **ctx))
EV_NONE(int ev_close(void *ctx))
EV_NONE(int ev_query_device(void *ctx, struct ev_device_attr *out))
EV_NONE(int ev_query_port(void *ctx, int port, struct ev_port_attr *out))
EV_NONE(int ev_query_gid(void *ctx, int port, int index, uint8_t *out))
EV_NONE(int ev_async_fd(void *ctx))
EV_NONE(int ev_async_event(void *ctx, struct ev_event *out))
EV_NONE(int ev_alloc_pd(void *ctx, void **pd))
EV_NONE(int ev_dealloc_pd(void *pd))
EV_NONE(int ev_reg_mr(void *pd, uint64_t addr, uint64_t len, uint32_t access, void **mr, uint32_t *lkey, uint32_t *rkey))
EV_NONE(int ev_dereg_mr(void *mr))
EV_NONE(int ev_create_ah(void *pd, struct ev_ah *a, void **ah))
EV_NONE(int ev_destroy_ah(void *ah))
EV_NONE(int ev_create_channel(void *ctx, void **ch, int *fd))
EV_NONE(int ev_destroy_channel(void *ch))
EV_NONE(int ev_drain_channel(uintptr_t ch))
EV_NONE(int ev_create_cq(void *ctx, int depth, void *ch, void **cq, int *got))
EV_NONE(int ev_destroy_cq(void *cq))
EV_NONE(int ev_arm_cq(uintptr_t cq))
EV_NONE(int ev_poll_cq(uintptr_t cq, struct ev_wc *v, int n))
EV_NONE(int ev_create_qp(void *pd, struct ev_qp_init *init, void **qp, uint32_t *num))
EV_NONE(int ev_modify_qp(void *qp, uint32_t type, struct ev_qp_attr *a))
EV_NONE(int ev_destroy_qp(void *qp))
EV_NONE(int ev_post_send(uintptr_t qp, int ud, struct ev_send *v, int n, int *err))
EV_NONE(int ev_post_recv(uintptr_t qp, struct ev_recv *v, int n, int *err))

const char *ev_status(int status) { return "unknown"; }

#endif
