/* Attention in plain C: one query over two keys on the CPU; exits with 0 if the numbers are right. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

static tandem_tensor tensor(void* data, int64_t seqlen, int64_t dim) {
  tandem_tensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = TANDEM_FP32;
  t.shape[0] = t.shape[2] = 1;
  t.shape[1] = seqlen;
  t.shape[3] = dim;
  t.stride[0] = seqlen * dim;
  t.stride[1] = t.stride[2] = dim;
  t.stride[3] = 1;
  return t;
}

static int failed(const char* what) {
  printf("%s: %s\n", what, tandem_last_error());
  return 1;
}

int main(void) {
  float q[2] = {0, 0}, k[4] = {1, 2, 3, 4}, v[2] = {1, 3}, out[1] = {0};
  tandem_context_options options;
  tandem_forward_args args;
  tandem_context* context = NULL;
  tandem_forward_plan* plan = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.backend = "cpu";
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.q = tensor(q, 1, 2);
  args.k = tensor(k, 2, 2);
  args.v = tensor(v, 2, 1);
  args.out = tensor(out, 1, 1);
  args.softmax_scale = 0.5f;

  if (tandem_context_create(&options, &context) != TANDEM_OK) return failed("context");
  if (tandem_forward_supports(context, &args) != TANDEM_OK) return failed("supports");
  if (tandem_forward_prepare(context, &args, &plan) != TANDEM_OK) return failed("prepare");
  if (tandem_forward_workspace_size(plan) != 0) return failed("the cpu backend wants workspace");
  if (tandem_forward_run(plan, &args, NULL, 0, NULL) != TANDEM_OK) return failed("run");
  if (out[0] < 1.99999f || out[0] > 2.00001f) {
    printf("O is %g, not 2\n", (double)out[0]);
    return 1;
  }
  printf("C, tandem %s on %s: right\n", tandem_version(), tandem_context_backend(context));
  tandem_forward_plan_destroy(plan);
  tandem_context_destroy(context);
  return 0;
}
