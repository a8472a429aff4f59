/* Attention in C: two query heads that share a KV head, causal, in host memory on the "cpu" backend, so that it runs anywhere.
 * On a Hopper GPU the calls are the same: backend "hopper", device memory, 16-bit tensors, a workspace and a stream.
 *   cc attention.c $(pkg-config --cflags --libs tandem) -lm */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <tandem/tandem.h>

enum { kBatch = 1, kSeqlenQ = 3, kSeqlenK = 5, kHeads = 2, kHeadsKv = 1, kDim = 8 };

/* A contiguous tensor (batch, seqlen, heads, dim). */
static tandem_tensor tensor_of(float* data, int64_t seqlen, int64_t heads) {
  tandem_tensor tensor = {.data = data, .shape = {kBatch, seqlen, heads, kDim}, .stride = {seqlen * heads * kDim, heads * kDim, kDim, 1}, .dtype = TANDEM_FP32};
  return tensor;
}

static int failed(tandem_status status, const char* what) {
  if (status == TANDEM_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, tandem_status_name(status), tandem_last_error());
  return 1;
}

/* The values of a row weigh 1 each, so every output is 1; and LSE tells how many keys a query sees, for all scores are 0. */
static int check(const float* out, const float* lse) {
  for (int row = 0; row < kSeqlenQ; ++row)
    for (int head = 0; head < kHeads; ++head) {
      const float visible = (float)(row + 1 + kSeqlenK - kSeqlenQ);
      const float o = out[(row * kHeads + head) * kDim], l = lse[head * kSeqlenQ + row];
      printf("query %d head %d: sees %g keys, out %g, lse %g\n", row, head, (double)visible, (double)o, (double)l);
      if (fabsf(o - 1.0f) > 1e-6f || fabsf(l - logf(visible)) > 1e-6f) return 1;
    }
  return 0;
}

int main(void) {
  static float q[kBatch * kSeqlenQ * kHeads * kDim], k[kBatch * kSeqlenK * kHeadsKv * kDim]; /* zeros */
  static float v[kBatch * kSeqlenK * kHeadsKv * kDim], out[kBatch * kSeqlenQ * kHeads * kDim], lse[kBatch * kHeads * kSeqlenQ];
  for (size_t i = 0; i < sizeof v / sizeof v[0]; ++i) v[i] = 1.0f;

  tandem_context_options options = {.size = sizeof options, .backend = "cpu"};
  tandem_context* context = NULL;
  if (failed(tandem_context_create(&options, &context), "context")) return 1;

  tandem_forward_args args = {.size = sizeof args,
                              .q = tensor_of(q, kSeqlenQ, kHeads),
                              .k = tensor_of(k, kSeqlenK, kHeadsKv),
                              .v = tensor_of(v, kSeqlenK, kHeadsKv),
                              .out = tensor_of(out, kSeqlenQ, kHeads),
                              .lse = lse,
                              .softmax_scale = 1.0f / sqrtf((float)kDim),
                              .causal = 1};
  tandem_forward_plan* plan = NULL;
  int wrong = failed(tandem_forward_prepare(context, &args, &plan), "prepare"); /* chooses, may compile: once for these shapes */
  if (!wrong) {
    printf("plan: %s\n", tandem_forward_plan_json(plan));
    /* Host backends need no workspace and no stream. */
    wrong = failed(tandem_forward_run(plan, &args, NULL, 0, NULL), "run") || check(out, lse);
  }
  tandem_forward_plan_destroy(plan);
  tandem_context_destroy(context);
  return wrong;
}
