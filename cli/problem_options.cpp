#include "problem_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/validate.hpp"
#include "failure.hpp"
#include "tandem/tandem.h"

namespace tandem::cli {
namespace {

constexpr const char* kGroup = "Problem";

std::int64_t or_else(std::int64_t value, std::int64_t other) { return value < 0 ? other : value; }

}  // namespace

void ProblemOptions::add_to(CLI::App& app) {
  app_ = &app;
  const auto size = [&](const char* name, std::int64_t& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::NonNegativeNumber)->group(kGroup);
  };
  size("--batch", batch_, "batch entries [1]");
  size("--seqlen-q,--seqlen", seqlen_q_, "queries a batch entry [4096]");
  size("--seqlen-k", seqlen_k_, "keys a batch entry [as many as queries]");
  size("--heads", heads_, "query heads [16]");
  size("--heads-kv", heads_kv_, "heads of K and V, a divisor of --heads [as --heads]");
  size("--head-dim", head_dim_, "width of Q and K [128]");
  size("--head-dim-v", head_dim_v_, "width of V and O [as --head-dim]");
  call_.add_to(app, kGroup);
  app.add_option("--dtype", dtype_, "fp16 or bf16 [bf16]")->check(CLI::IsMember({"fp16", "bf16"}))->group(kGroup);
  app.add_option("--sms", multiprocessors_, "multiprocessors of the device [132]")->check(CLI::Range(1, 1024))->group(kGroup);
}

bool ProblemOptions::given() const {
  for (const CLI::Option* option : app_->get_options())
    if (option->get_group() == kGroup && option->count() > 0) return true;
  return false;
}

// By the validation of the library, so that the kernel is the one that such a call gets. Its addresses only say what is there.
ForwardProblem ProblemOptions::problem() const {
  const std::int64_t heads_kv = or_else(heads_kv_, heads_);
  if (heads_kv == 0 || heads_ == 0 || heads_ % heads_kv != 0)
    fail("--heads is {} and --heads-kv is {}; --heads must be a multiple of --heads-kv, both at least 1", heads_, heads_kv);
  static constexpr std::int32_t kNoLength = 0;
  static constexpr float kNoSink = 0;
  const auto sum = [](const Lengths& lengths) { return cumulated("lengths", lengths).back(); };
  const auto longest = [](const Lengths& lengths) { return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()); };
  tandem_forward_args args{};
  args.size = sizeof args;
  const std::int64_t batch = sequence_count();
  const std::int64_t rows_q = call_.seqlens_q ? sum(*call_.seqlens_q) : seqlen_q_;
  const std::int64_t rows_k = call_.seqlens_k ? sum(*call_.seqlens_k) : or_else(seqlen_k_, call_.seqlens_q ? longest(*call_.seqlens_q) : seqlen_q_);
  if (batch == 0 || rows_q == 0) fail("--batch is {} and --seqlen-q is {}; with no queries nothing is launched", batch, rows_q);
  const auto tensor = [&](bool packed, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    tandem_tensor result{};
    const std::int64_t shape[4] = {packed ? 1 : batch, rows, heads, dim};
    for (int axis = 3; axis >= 0; --axis) {
      result.shape[axis] = shape[axis];
      result.stride[axis] = axis == 3 ? 1 : result.stride[axis + 1] * shape[axis + 1];
    }
    result.dtype = dtype_ == "fp16" ? TANDEM_FP16 : TANDEM_BF16;
    return result;
  };
  const bool packed_q = call_.seqlens_q.has_value(), packed_k = call_.seqlens_k.has_value();
  args.q = tensor(packed_q, rows_q, heads_, head_dim_);
  args.k = tensor(packed_k, rows_k, heads_kv, head_dim_);
  args.v = tensor(packed_k, rows_k, heads_kv, or_else(head_dim_v_, head_dim_));
  args.out = tensor(packed_q, rows_q, heads_, or_else(head_dim_v_, head_dim_));
  args.softmax_scale = 1.0f;
  const Mask mask = call_.mask();
  args.causal = mask.causal ? 1 : 0;
  args.window = mask.windowed() ? 1 : 0;
  if (mask.windowed()) {
    args.window_left = mask.window_left;
    args.window_right = mask.window_right;
  }
  args.attention_chunk = mask.attention_chunk;
  args.softcap = call_.softcap;
  if (call_.sinks) args.sinks = &kNoSink;
  if (packed_q) args.cu_seqlens_q = &kNoLength;
  if (packed_k) args.cu_seqlens_k = &kNoLength;
  if (call_.seqused_q) args.seqused_q = &kNoLength;
  if (call_.seqused_k) args.seqused_k = &kNoLength;
  if (packed_q || packed_k) args.num_sequences = batch;
  if (packed_q) args.max_seqlen_q = longest(*call_.seqlens_q);
  if (packed_k) args.max_seqlen_k = longest(*call_.seqlens_k);
  args.sm_margin = call_.sm_margin;
  args.batch_invariant = call_.batch_invariant ? 1 : 0;
  api::ForwardRequest request;
  require(api::validate(&args, api::Addresses::optional, request));
  return request.problem;
}

// Every list of lengths is of as many sequences as the others, and as --batch if that is given.
std::int64_t ProblemOptions::sequence_count() const {
  std::int64_t count = app_->get_option("--batch")->count() > 0 ? batch_ : -1;
  const char* from = "--batch";
  for (const auto& [name, lengths] : {std::pair("--seqlens-q", &call_.seqlens_q), std::pair("--seqlens-k", &call_.seqlens_k),
                                      std::pair("--seqused-q", &call_.seqused_q), std::pair("--seqused-k", &call_.seqused_k)}) {
    if (!*lengths) continue;
    const std::int64_t own = std::ssize(**lengths);
    if (count >= 0 && own != count) fail("{} has {} lengths and {} says {} sequences; they must be as many", name, own, from, count);
    count = own;
    from = name;
  }
  return count >= 0 ? count : batch_;
}

std::vector<ProblemOptions::Sequence> ProblemOptions::sequences() const {
  const ForwardProblem asked = problem();
  if (!asked.ragged()) return {{asked.seqlen_q, asked.seqlen_k}};
  std::vector<Sequence> result;
  const auto length = [](const std::optional<Lengths>& packed, const std::optional<Lengths>& used, std::int64_t rows, std::size_t i) {
    const std::int64_t whole = packed ? (*packed)[i] : rows;
    return used ? std::min<std::int64_t>((*used)[i], whole) : whole;
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(asked.batch); ++i)
    result.push_back({length(call_.seqlens_q, call_.seqused_q, asked.seqlen_q, i), length(call_.seqlens_k, call_.seqused_k, asked.seqlen_k, i)});
  return result;
}

DeviceShape ProblemOptions::device() const {
  DeviceShape device;
  device.multiprocessors = multiprocessors_;
  return device;
}

std::string describe(const ForwardProblem& problem, float softcap) {
  const bool packed = problem.packed_q || problem.packed_k;
  std::string text = fmt::format("{}, {} {}, {} heads", name_of(problem.type), packed ? "packed sequences" : "batch", problem.batch, problem.num_heads);
  if (problem.num_heads_kv != problem.num_heads) text += fmt::format(" ({} of keys)", problem.num_heads_kv);
  const auto side = [&](const char* what, std::int64_t rows, bool is_packed, bool used) {
    text += fmt::format(", {} {}", rows, what);
    if (is_packed || used) text += fmt::format(" ({}{}{})", is_packed ? "packed" : "", is_packed && used ? ", " : "", used ? "in part used" : "");
  };
  side("queries", problem.seqlen_q, problem.packed_q, problem.used_q);
  side("keys", problem.seqlen_k, problem.packed_k, problem.used_k);
  text += fmt::format(", head dim {}", problem.head_dim);
  if (problem.head_dim_v != problem.head_dim) text += fmt::format("/{}", problem.head_dim_v);
  const Mask mask{
      .causal = problem.causal, .window_left = problem.window_left, .window_right = problem.window_right, .attention_chunk = problem.attention_chunk};
  if (mask.any() || softcap > 0 || problem.sinks) text += ", " + mask_text(mask, softcap, problem.sinks);
  if (problem.softcap && softcap == 0) text += ", softcap";  // its value belongs to the run
  if (problem.sm_margin > 0) text += fmt::format(", {} multiprocessors left to others", problem.sm_margin);
  return text + (problem.batch_invariant ? ", batch invariant" : "");
}

}  // namespace tandem::cli
