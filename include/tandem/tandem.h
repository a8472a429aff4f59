/* Tandem: exact attention for NVIDIA Hopper. The C interface.
 *
 *   O = softmax(softmax_scale * Q K^T + mask) V,   LSE = log(sum_j exp(score_j))
 *
 * Every call goes through three phases:
 *   tandem_forward_supports  says whether a request can be served, and if not why;
 *   tandem_forward_prepare   chooses a schedule and a kernel for its shapes. It may compile, load and read files;
 *   tandem_forward_run       launches. It never compiles, allocates or synchronises, so it can be captured in a CUDA graph.
 *
 * Objects may be used from several threads at once; a workspace belongs to one run at a time. Functions return a status; after a
 * failure tandem_last_error() of the same thread is one sentence that names the argument, its value and what would be accepted.
 * The library never aborts, exits or prints. */
#ifndef TANDEM_TANDEM_H_
#define TANDEM_TANDEM_H_

#include <stddef.h>
#include <stdint.h>

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

#if defined(TANDEM_BUILDING) && defined(__GNUC__)
#define TANDEM_API __attribute__((visibility("default")))
#else
#define TANDEM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tandem_status {
  TANDEM_OK = 0,
  TANDEM_INVALID_ARGUMENT = 1, /* the request contradicts itself or is out of range */
  TANDEM_UNSUPPORTED = 2,      /* a legal request that this backend cannot serve */
  TANDEM_UNAVAILABLE = 3,      /* the backend needs something that this machine lacks: a GPU, a driver, NVRTC */
  TANDEM_COMPILE_ERROR = 4,    /* a kernel did not compile, or may not be compiled now (TANDEM_JIT=off) */
  TANDEM_DRIVER_ERROR = 5,     /* a CUDA driver call failed */
  TANDEM_OUT_OF_MEMORY = 6,
  TANDEM_INTERNAL_ERROR = 7 /* a fault of this library */
} tandem_status;

typedef enum tandem_dtype { TANDEM_FP16 = 1, TANDEM_BF16 = 2, TANDEM_FP32 = 3 } tandem_dtype;

/* A tensor (batch, seqlen, heads, dim) in memory that the backend can reach: device memory for "hopper", host memory for the others.
 * Strides count elements; a stride of 0 repeats, and the stride of an axis of length 1 is never used. */
typedef struct tandem_tensor {
  void* data;
  int64_t shape[4];
  int64_t stride[4];
  int32_t dtype;    /* tandem_dtype */
  int32_t reserved; /* 0 */
} tandem_tensor;

/* One forward call. Query head i reads KV head i / (heads of q / heads of k). All zero but size, tensors and softmax_scale: plain attention.
 *
 * Masks join: a key is seen if every one of them lets it be seen. Query i of a sequence stands at position p = i + seqlen_k - seqlen_q, so the
 * last query stands at the last key. A query that sees no key gets O = 0 and LSE = -infinity (with a sink, that sink).
 *
 * Ragged batches. Packed: cu_seqlens_q says that sequence b has the rows cu_seqlens_q[b] ... cu_seqlens_q[b + 1] - 1 of a q and out whose batch
 * axis is 1; lse is then (1, num_heads, rows). cu_seqlens_k says the same of k and v; either may be packed without the other. Used lengths:
 * only the first seqused_q[b] (seqused_k[b]) tokens of sequence b exist; what follows them may hold anything. Rows of out that no sequence has
 * become 0 (LSE -infinity). The lengths lie where the tensors lie and are read when the run executes: they may change between the replays of
 * a CUDA graph. Lengths that contradict the tensors are cut to what the tensors have. */
typedef struct tandem_forward_args {
  uint32_t size;                             /* sizeof(tandem_forward_args) */
  uint32_t reserved;                         /* 0 */
  tandem_tensor q;                           /* (batch, seqlen_q, num_heads, head_dim); packed: (1, rows, num_heads, head_dim) */
  tandem_tensor k;                           /* (batch, seqlen_k, num_heads_kv, head_dim); packed: (1, rows, num_heads_kv, head_dim) */
  tandem_tensor v;                           /* (batch, seqlen_k, num_heads_kv, head_dim_v); packed as k is */
  tandem_tensor out;                         /* (batch, seqlen_q, num_heads, head_dim_v), dtype of q; packed as q is */
  float* lse;                                /* (batch, num_heads, seqlen_q), natural logarithm; NULL: not wanted */
  int64_t lse_stride_batch, lse_stride_head; /* elements; both 0: contiguous */
  float softmax_scale;                       /* finite and not negative; 1/sqrt(head_dim) is usual */
  int32_t causal;                            /* 1: keys up to p are seen */
  int32_t window;                            /* 1: keys from p - window_left to p + window_right are seen; 0: no window */
  int32_t batch_invariant;                   /* 1: the bits of a row depend on its own sequence alone, whatever else is in the batch */
  int64_t window_left, window_right;         /* tokens; negative: that side is open. 0 without a window */
  int64_t attention_chunk;                   /* c > 0: keys j with floor(j / c) = floor(p / c) are seen; 0: no chunks */
  float softcap;                             /* c > 0: a score s becomes c * tanh(s / c) before the mask; 0: it stays */
  int32_t sm_margin;                         /* multiprocessors that are left to others */
  const float* sinks;                        /* (num_heads), a logit a head that joins its softmax and has no value; NULL: none */
  const int32_t* cu_seqlens_q;               /* (num_sequences + 1), rising from 0; NULL: q is not packed */
  const int32_t* cu_seqlens_k;               /* the same of k and v */
  const int32_t* seqused_q;                  /* (num_sequences); NULL: all tokens are used */
  const int32_t* seqused_k;                  /* the same of k and v */
  int64_t num_sequences;                     /* with cu_seqlens_q or cu_seqlens_k: how many; else 0: the batch of q */
  int64_t max_seqlen_q, max_seqlen_k;        /* of packed sequences, to choose the schedule by; 0: not known. No bound: longer ones are right too */
} tandem_forward_args;

typedef struct tandem_context_options {
  uint32_t size;         /* sizeof(tandem_context_options) */
  int32_t device;        /* CUDA device ordinal, for "hopper" */
  const char* backend;   /* "hopper", "cpu", "model"; NULL or "auto": hopper where it is available, else cpu */
  const char* cache_dir; /* kernel cache; NULL: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem */
  int32_t threads;       /* of the cpu backend; 0: one for each core */
  int32_t reserved;      /* 0 */
} tandem_context_options;

typedef struct tandem_context tandem_context;           /* a backend on a device, and its loaded kernels */
typedef struct tandem_forward_plan tandem_forward_plan; /* a prepared forward; may outlive nothing but its context */

TANDEM_API const char* tandem_version(void);
TANDEM_API const char* tandem_status_name(tandem_status status);
/* What the last failed call of this thread said; "" if none failed. Valid until the next failure in this thread. */
TANDEM_API const char* tandem_last_error(void);

/* options NULL: all defaults. */
TANDEM_API tandem_status tandem_context_create(const tandem_context_options* options, tandem_context** context);
TANDEM_API void tandem_context_destroy(tandem_context* context);
TANDEM_API const char* tandem_context_backend(const tandem_context* context);

/* Reads shapes, strides, dtypes and flags. The data pointers of tensors may be NULL in these two; of lse, sinks, cu_seqlens and seqused it
 * counts whether they are there, and nothing is read. */
TANDEM_API tandem_status tandem_forward_supports(tandem_context* context, const tandem_forward_args* args);
TANDEM_API tandem_status tandem_forward_prepare(tandem_context* context, const tandem_forward_args* args, tandem_forward_plan** plan);
TANDEM_API void tandem_forward_plan_destroy(tandem_forward_plan* plan);

/* Bytes of workspace that a run needs, 16-byte aligned, in the memory of the tensors. May be 0. */
TANDEM_API size_t tandem_forward_workspace_size(const tandem_forward_plan* plan);
/* Readies fresh workspace memory, once; every run leaves it ready for the next. Without it results are right and scheduling is slower. */
TANDEM_API tandem_status tandem_forward_workspace_init(const tandem_forward_plan* plan, void* workspace, size_t workspace_size, void* stream);

/* Runs on `stream` (CUstream or cudaStream_t; NULL is the default stream; ignored by host backends, which return when done).
 * Shapes, dtypes, masks and what is there must be those of the plan; addresses, strides, softmax_scale, the value of softcap and what the
 * arrays of lengths hold may differ from run to run. */
TANDEM_API tandem_status tandem_forward_run(const tandem_forward_plan* plan, const tandem_forward_args* args, void* workspace, size_t workspace_size,
                                            void* stream);

/* A description of what was chosen, as JSON. Valid as long as the plan. */
TANDEM_API const char* tandem_forward_plan_json(const tandem_forward_plan* plan);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_TANDEM_H_ */
