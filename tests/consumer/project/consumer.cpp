// Attention of two queries over three keys on the CPU, through the C++ interface; exits with 0 if the numbers are right.
#include <cmath>
#include <cstdio>
#include <tandem/tandem.hpp>

int main() {
  // One batch entry, one head, head dim 2. The second query sees no difference between the keys; causal hides the last key from the first.
  const float q[] = {1, 0, 0, 0}, k[] = {1, 0, 0, 1, 9, 9}, v[] = {1, 2, 3, 4, 5, 6};
  float out[4] = {}, lse[2] = {};
  tandem::ForwardArgs args;
  args.q = {q, {1, 2, 1, 2}, tandem::DataType::fp32};
  args.k = {k, {1, 3, 1, 2}, tandem::DataType::fp32};
  args.v = {v, {1, 3, 1, 2}, tandem::DataType::fp32};
  args.out = {out, {1, 2, 1, 2}, tandem::DataType::fp32};
  args.lse = lse;
  args.softmax_scale = 1.0f;
  args.causal = true;

  const auto context = tandem::Context::create({.backend = "cpu"});
  if (!context.ok()) return std::printf("%s\n", context.status().message().c_str()), 1;
  const auto plan = context.value().prepare(args);
  if (!plan.ok()) return std::printf("%s\n", plan.status().message().c_str()), 1;
  if (const tandem::Status status = plan.value().run(args); !status.ok()) return std::printf("%s\n", status.message().c_str()), 1;

  const float weight = std::exp(1.0f) / (std::exp(1.0f) + 1), expected[] = {weight * 1 + (1 - weight) * 3, weight * 2 + (1 - weight) * 4, 3, 4};
  for (int i = 0; i < 4; ++i)
    if (std::abs(out[i] - expected[i]) > 1e-5f) return std::printf("O[%d] is %g, not %g\n", i, out[i], expected[i]), 1;
  if (std::abs(lse[0] - std::log(std::exp(1.0f) + 1)) > 1e-5f || std::abs(lse[1] - std::log(3.0f)) > 1e-5f) return std::printf("LSE is wrong\n"), 1;

  args.causal = false;
  const tandem::Status refused = plan.value().run(args);
  if (refused.ok() || refused.message().empty()) return std::printf("a run that does not fit its plan was not refused\n"), 1;
  std::printf("C++ on %s: right\n", std::string(context.value().backend()).c_str());
  return 0;
}
