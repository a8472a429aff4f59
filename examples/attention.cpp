// Attention in C++: grouped queries, causal, in host memory on the "cpu" backend, so that it runs anywhere. On a Hopper GPU the calls are the
// same: backend "hopper", device memory, 16-bit tensors, a workspace and a stream.
//   c++ -std=c++20 attention.cpp $(pkg-config --cflags --libs tandem)
#include <cmath>
#include <cstdio>
#include <tandem/tandem.hpp>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 2, kSeqlen = 100, kHeads = 4, kHeadsKv = 2, kDim = 64;

// Numbers between -1 and 1 that look random.
std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
  }
  return values;
}

// The same row by row, as a textbook writes it.
double largest_error(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v, const std::vector<float>& out) {
  double worst = 0;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t i = 0; i < kSeqlen; ++i) {
        const auto q_at = [&](std::int64_t d) { return static_cast<double>(q[static_cast<std::size_t>(((b * kSeqlen + i) * kHeads + h) * kDim + d)]); };
        const std::int64_t kv_head = h / (kHeads / kHeadsKv);
        std::vector<double> sums(kDim);
        double total = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          const auto row = static_cast<std::size_t>(((b * kSeqlen + j) * kHeadsKv + kv_head) * kDim);
          double score = 0;
          for (std::int64_t d = 0; d < kDim; ++d) score += q_at(d) * static_cast<double>(k[row + static_cast<std::size_t>(d)]);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(kDim)));
          total += weight;
          for (std::size_t d = 0; d < kDim; ++d) sums[d] += weight * static_cast<double>(v[row + d]);
        }
        for (std::size_t d = 0; d < kDim; ++d) {
          const auto ours = static_cast<double>(out[static_cast<std::size_t>(((b * kSeqlen + i) * kHeads + h) * kDim) + d]);
          worst = std::fmax(worst, std::fabs(ours - sums[d] / total));
        }
      }
  return worst;
}

int complain(const tandem::Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main() {
  const auto q = numbers(kBatch * kSeqlen * kHeads * kDim, 1), k = numbers(kBatch * kSeqlen * kHeadsKv * kDim, 2), v = numbers(std::ssize(k), 3);
  std::vector<float> out(q.size()), lse(kBatch * kHeads * kSeqlen);

  auto context = tandem::Context::create({.backend = "cpu"});
  if (!context.ok()) return complain(context.status());

  tandem::ForwardArgs args;
  args.q = {q.data(), {kBatch, kSeqlen, kHeads, kDim}, tandem::DataType::fp32};
  args.k = {k.data(), {kBatch, kSeqlen, kHeadsKv, kDim}, tandem::DataType::fp32};
  args.v = {v.data(), {kBatch, kSeqlen, kHeadsKv, kDim}, tandem::DataType::fp32};
  args.out = {out.data(), {kBatch, kSeqlen, kHeads, kDim}, tandem::DataType::fp32};
  args.lse = lse.data();
  args.causal = true;

  auto plan = context.value().prepare(args);  // chooses, may compile: once for these shapes
  if (!plan.ok()) return complain(plan.status());
  // A GPU would be given device memory of plan.value().workspace_size() bytes and a stream here.
  if (tandem::Status status = plan.value().run(args); !status.ok()) return complain(status);

  // What cannot be served is refused with a sentence.
  tandem::ForwardArgs wrong = args;
  wrong.k = {k.data(), {kBatch, kSeqlen, 3, kDim}, tandem::DataType::fp32};
  wrong.v = wrong.k;
  std::printf("refused: %s\n", context.value().supports(wrong).message().c_str());

  const double error = largest_error(q, k, v, out);
  std::printf("backend %s, largest error %.2g\n", std::string(context.value().backend()).c_str(), error);
  return error < 1e-5 ? 0 : 1;
}
