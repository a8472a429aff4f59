#include "problem_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "failure.hpp"

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
  app.add_flag("--causal", causal_, "query i sees keys up to i + seqlen_k - seqlen_q")->group(kGroup);
  app.add_option("--dtype", dtype_, "fp16 or bf16 [bf16]")->check(CLI::IsMember({"fp16", "bf16"}))->group(kGroup);
  app.add_option("--sms", multiprocessors_, "multiprocessors of the device [132]")->check(CLI::Range(1, 1024))->group(kGroup);
}

bool ProblemOptions::given() const {
  for (const CLI::Option* option : app_->get_options())
    if (option->get_group() == kGroup && option->count() > 0) return true;
  return false;
}

ForwardProblem ProblemOptions::problem() const {
  ForwardProblem problem{.type = dtype_ == "fp16" ? ElementType::fp16 : ElementType::bf16,
                         .batch = batch_,
                         .seqlen_q = seqlen_q_,
                         .seqlen_k = or_else(seqlen_k_, seqlen_q_),
                         .num_heads = heads_,
                         .num_heads_kv = or_else(heads_kv_, heads_),
                         .head_dim = head_dim_,
                         .head_dim_v = or_else(head_dim_v_, head_dim_),
                         .causal = causal_};
  if (problem.num_heads_kv == 0 || problem.num_heads == 0 || problem.num_heads % problem.num_heads_kv != 0)
    fail("--heads is {} and --heads-kv is {}; --heads must be a multiple of --heads-kv, both at least 1", problem.num_heads, problem.num_heads_kv);
  if (problem.batch == 0 || problem.seqlen_q == 0)
    fail("--batch is {} and --seqlen-q is {}; with no queries nothing is launched", problem.batch, problem.seqlen_q);
  return problem;
}

DeviceShape ProblemOptions::device() const {
  DeviceShape device;
  device.multiprocessors = multiprocessors_;
  return device;
}

std::string describe(const ForwardProblem& problem) {
  std::string text = fmt::format("{}, batch {}, {} heads", name_of(problem.type), problem.batch, problem.num_heads);
  if (problem.num_heads_kv != problem.num_heads) text += fmt::format(" ({} of keys)", problem.num_heads_kv);
  text += fmt::format(", {} queries, {} keys, head dim {}", problem.seqlen_q, problem.seqlen_k, problem.head_dim);
  if (problem.head_dim_v != problem.head_dim) text += fmt::format("/{}", problem.head_dim_v);
  return text + (problem.causal ? ", causal" : "");
}

}  // namespace tandem::cli
