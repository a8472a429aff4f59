#include "forward/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "attention/params.hpp"
#include "backends/hopper/layout.hpp"
#include "forward/run.hpp"
#include "forward/shipped_images.hpp"
#include "plan/planner.hpp"
#include "plan/spec_text.hpp"

namespace tandem::model {
namespace {

// A small device: every block gets several tiles even of a small problem, and so works through its hand-overs.
constexpr DeviceShape kModelDevice{.multiprocessors = 4, .section_bytes = 1 << 20};

// A kernel that notes a timeline has a multiprocessor to itself: its one block shows all that there is to see.
int multiprocessors_for(const ForwardSpec& spec) { return spec.timeline ? 1 : kModelDevice.multiprocessors; }

struct Choice {
  const KernelImage* kernel = nullptr;
  ForwardSpec spec;
  std::string reason;
};

const KernelImage* find_image(const ForwardSpec& spec) {
  for (std::size_t i = 0; i < kPlayedCount; ++i)
    if (played_forward(i) == spec) return &played_image(i);
  for (std::size_t i = 0; i < kScheduleCount; ++i)
    if (kSchedules[i].spec == spec) return &schedule_image(i);
  return nullptr;
}

// A window that is open to the left and ends at the query is the causal mask.
bool serves_mask(const ForwardSpec& spec, const ForwardProblem& problem) {
  return (spec.causal == problem.causal && spec.local == problem.local()) || (spec.local && !spec.causal);
}

// What the planner takes, if the model holds it; else its kernel with the narrowest tiles that the head dims fit into: what a tile is wider
// than the tensors reads as zero.
Result<Choice> choose_kernel(const ForwardProblem& asked) {
  const ForwardProblem problem = problem_of_part(asked, 0);
  const char* override_text = std::getenv("TANDEM_FORWARD_SPEC");
  const bool overridden = override_text != nullptr && *override_text != '\0';
  const auto plan = plan_forward(problem, kModelDevice, overridden ? override_text : "");
  if (plan.ok())
    if (const KernelImage* kernel = find_image(plan.value().spec)) return Choice{kernel, plan.value().spec, plan.value().reason};
  if (overridden) {
    if (!plan.ok()) return plan.status();
    return Status(
        StatusCode::unsupported,
        fmt::format("the model does not hold {}; take it into kMaskedTiles or kOddTiles of model/forward/masked.hpp to play it", name_of(plan.value().spec)));
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < kPlayedCount; ++i) {
    const ForwardSpec spec = played_forward(i);
    if (!serves_mask(spec, problem) || spec.softcap != problem.softcap || spec.ragged != problem.ragged()) continue;
    if (spec.dtype != (problem.type == ElementType::bf16 ? DType::bf16 : DType::fp16)) continue;
    if (spec.head_dim < problem.head_dim || spec.head_dim_v < problem.head_dim_v) continue;
    const auto width = [](const ForwardSpec& s) { return s.head_dim + s.head_dim_v; };
    if (!best || width(spec) < width(played_forward(*best))) best = i;
  }
  if (!best)
    return Status(StatusCode::unsupported,
                  fmt::format("the model holds no kernel with tiles for head_dim {} and head_dim_v {} and this mask", problem.head_dim, problem.head_dim_v));
  return Choice{&played_image(*best), played_forward(*best), "the narrowest tiles in the model that hold the head dims"};
}

class ModelForward final : public ForwardExecutable {
 public:
  ModelForward(const ForwardProblem& problem, Choice choice)
      : problem_(problem),
        choice_(std::move(choice)),
        spec_(choice_.spec),
        geometry_(make_geometry(spec_, problem_of_part(problem, 0), multiprocessors_for(spec_), kModelDevice.section_bytes)) {}

  std::size_t workspace_size() const override { return geometry_.workspace_bytes; }

  Status init_workspace(Workspace workspace, void* /*stream*/) const override {
    if (geometry_.workspace_bytes > 0) *static_cast<unsigned long long*>(workspace.data) = kCounterMark;
    return {};
  }

  Status run(const ForwardCall& call, Workspace workspace, void* /*stream*/) const override {
    if (std::string refusal = layout_refusal(call); !refusal.empty()) return {StatusCode::unsupported, std::move(refusal)};
    if (spec_.timeline && call.timeline == nullptr)
      return {StatusCode::invalid_argument, "the spec notes a timeline and the call has no buffer for it; `tandem timeline` gives one"};
    ForwardLaunch launch;
    launch.kernel = choice_.kernel;
    launch.spec = spec_;
    launch.problem = problem_;
    launch.call = call;
    launch.multiprocessors = multiprocessors_for(spec_);
    launch.section_bytes = kModelDevice.section_bytes;
    if (geometry_.workspace_bytes > 0) launch.workspace = workspace.data;
    launch.seed = seed_from_environment().value_or(runs_.fetch_add(1, std::memory_order_relaxed));
    launch.timed = spec_.timeline;
    const LaunchReport report = run_forward(launch);
    if (!report.ok()) return {StatusCode::internal_error, report.diagnosis->text()};
    return {};
  }

  std::string describe() const override {
    return nlohmann::json{{"backend", "model"},
                          {"kernel", name_of(spec_)},
                          {"spec", to_json(spec_)},
                          {"reason", choice_.reason},
                          {"grid", geometry_.grid},
                          {"threads", geometry_.threads},
                          {"shared_bytes", geometry_.shared_bytes},
                          {"tiles", geometry_.order.tiles}}
        .dump();
  }

 private:
  ForwardProblem problem_;
  Choice choice_;
  ForwardSpec spec_;
  LaunchGeometry geometry_;
  mutable std::atomic<std::uint64_t> runs_{1};
};

class ModelBackend final : public Backend {
 public:
  std::string_view name() const override { return "model"; }

  Status supports(const ForwardProblem& problem, const ForwardCall& call) const override {
    std::string reason = unsupported_reason(problem);
    if (reason.empty()) reason = layout_refusal(call);
    if (!reason.empty()) return {StatusCode::unsupported, std::move(reason)};
    const auto choice = choose_kernel(problem);
    return choice.ok() ? Status() : choice.status();
  }

  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& problem) override {
    auto choice = choose_kernel(problem);
    if (!choice.ok()) return choice.status();
    return std::unique_ptr<ForwardExecutable>(std::make_unique<ModelForward>(problem, std::move(choice).value()));
  }
};

}  // namespace

Result<std::unique_ptr<Backend>> make_model_backend(const BackendOptions& /*options*/) { return std::unique_ptr<Backend>(std::make_unique<ModelBackend>()); }

}  // namespace tandem::model

void tandem_model_register() { tandem::register_backend("model", tandem::model::make_model_backend); }
