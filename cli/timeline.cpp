// tandem timeline: when the roles of a block load, multiply and exponentiate, for three schedules of one problem. The kernels note it
// themselves: on a GPU in its cycles, in the Hopper model in virtual ones.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "command.hpp"
#include "cuda/device.hpp"
#include "failure.hpp"
#include "file.hpp"
#include "json_output.hpp"
#include "memory.hpp"
#include "model_library.hpp"
#include "normal_bf16.hpp"
#include "plan/schedules.hpp"
#include "plan/spec_text.hpp"
#include "problem_options.hpp"
#include "progress.hpp"
#include "spec_override.hpp"
#include "table.hpp"
#include "terminal.hpp"
#include "timeline_draw.hpp"
#include "timeline_intervals.hpp"

namespace tandem::cli {
namespace {

struct TimelineOptions {
  std::string backend = "model";
  int device = 0;
  std::string cache_dir;
  std::int64_t seqlen_q = 256, seqlen_k = 1024;
  std::vector<std::string> schedules;
  int block = 0;
  std::string svg, trace;
  std::uint64_t from = 0, cycles = 12'000;
  bool json = false;
};

// A problem's tensors where the backend reaches them.
struct DeviceTensor {
  std::unique_ptr<Buffer> buffer;
  Tensor tensor;
};

DeviceTensor make_device_tensor(MemorySpace& memory, const std::array<std::int64_t, 4>& shape, std::uint64_t seed) {
  const std::vector<std::byte> values = normal_bf16(shape, seed);
  DeviceTensor made;
  made.buffer = memory.allocate(values.size());
  memory.write(*made.buffer, values);
  made.tensor.data = made.buffer->data();
  made.tensor.shape = shape;
  made.tensor.stride = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  made.tensor.type = ElementType::bf16;
  return made;
}

// Everything that is opened once and serves all schedules.
class Recorder {
 public:
  explicit Recorder(const TimelineOptions& options) : options_(options) {
    if (options.backend == "model") require(load_model());
    backend_ = require(make_backend(options.backend, {.device = options.device, .cache_dir = options.cache_dir}));
    memory_ = memory_of(options.backend, options.device);
    source_ = "Virtual time of the Hopper model, not of a GPU";
    std::int64_t multiprocessors = 1;  // the model has one for a kernel that notes a timeline
    if (options.backend == "hopper") {
      const cuda::DeviceProperties device = require(cuda::device_properties(options.device));
      multiprocessors = device.multiprocessors;
      source_ = fmt::format("Cycles of a multiprocessor of {}, block {}", device.name, options.block);
    }
    // A head for each multiprocessor, all on the same K and V: as in a long sequence, they come from the L2 cache.
    problem_ = {.type = ElementType::bf16,
                .batch = 1,
                .seqlen_q = options.seqlen_q,
                .seqlen_k = options.seqlen_k,
                .num_heads = multiprocessors,
                .num_heads_kv = 1,
                .head_dim = kScheduleHeadDim,
                .head_dim_v = kScheduleHeadDim};
    q_ = make_device_tensor(*memory_, {1, problem_.seqlen_q, problem_.num_heads, problem_.head_dim}, 1);
    k_ = make_device_tensor(*memory_, {1, problem_.seqlen_k, 1, problem_.head_dim}, 2);
    v_ = make_device_tensor(*memory_, {1, problem_.seqlen_k, 1, problem_.head_dim_v}, 3);
    out_ = make_device_tensor(*memory_, {1, problem_.seqlen_q, problem_.num_heads, problem_.head_dim_v}, 4);
  }

  const ForwardProblem& problem() const { return problem_; }
  const std::string& source() const { return source_; }

  Timeline record(const Schedule& schedule) const {
    const SpecOverride override(to_text(schedule.spec));
    const auto executable = require(backend_->prepare_forward(problem_));
    const Json description = Json::parse(executable->describe());
    const int grid = description.at("grid").get<int>();
    if (options_.block >= grid) fail("--block is {} and the grid has {} blocks", options_.block, grid);

    const std::unique_ptr<Buffer> workspace = executable->workspace_size() > 0 ? memory_->allocate(executable->workspace_size()) : nullptr;
    const Workspace place{workspace ? workspace->data() : nullptr, workspace ? workspace->size() : 0};
    if (workspace) require(executable->init_workspace(place, memory_->stream()));
    std::vector<std::uint64_t> words(static_cast<std::size_t>(timeline_bytes(grid)) / sizeof(std::uint64_t), 0);
    const std::unique_ptr<Buffer> notes = memory_->allocate(words.size() * sizeof words[0]);

    ForwardCall call;
    call.q = q_.tensor;
    call.k = k_.tensor;
    call.v = v_.tensor;
    call.out = out_.tensor;
    call.softmax_scale = 0.0883883f;  // 1 / sqrt(128)
    call.timeline = notes->data();
    // The first run of a GPU loads code and fills its caches. What a run notes overwrites what the one before noted; zeros end each list.
    const int runs = options_.backend == "hopper" ? 3 : 1;
    for (int i = 0; i < runs; ++i) {
      memory_->write(*notes, std::as_bytes(std::span(words)));
      require(executable->run(call, place, memory_->stream()));
      memory_->synchronize();
    }
    memory_->read(std::as_writable_bytes(std::span(words)), *notes);

    Timeline timeline;
    timeline.name = schedule.name;
    timeline.text = schedule.text;
    timeline.spec = schedule.spec;
    timeline.entries = decode_timeline(words, options_.block);
    if (timeline.entries.empty()) fail("the kernel of the schedule \"{}\" noted nothing", schedule.name);
    timeline.intervals = intervals_of(timeline.entries, schedule.spec);
    timeline.figures = figures_of(timeline.intervals, schedule.spec);
    return timeline;
  }

 private:
  const TimelineOptions& options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MemorySpace> memory_;
  std::string source_;
  ForwardProblem problem_;
  DeviceTensor q_, k_, v_, out_;
};

Json timeline_json(const Timeline& timeline) {
  const TimelineFigures& figures = timeline.figures;
  Json json{{"name", timeline.name},
            {"kernel", name_of(timeline.spec)},
            {"spec", Json::parse(to_json(timeline.spec).dump())},
            {"rows", timeline.spec.block_m()},
            {"keys", timeline.spec.block_n},
            {"tiles", figures.tiles},
            {"step_cycles", figures.step_cycles},
            {"cycles_for_64_rows", figures.step_cycles / timeline.spec.consumer_warpgroups},
            {"step_tensor_share", figures.step_tensor_share},
            {"softmax_cycles", figures.softmax_cycles},
            {"total_cycles", figures.total_cycles},
            {"total_tensor_share", figures.total_tensor_share}};
  json["events"] = Json::array();  // role (0 the producer), event, cycle
  for (const TimelineEntry& entry : timeline.entries) json["events"].push_back({entry.role, tandem::name_of(entry.event), entry.cycle});
  return json;
}

void print_table(const std::vector<Timeline>& timelines) {
  Table table({"<schedule", "cycles a step", "rows x keys", "cycles for 64 rows", "tensor busy", "softmax", "cycles in all", "tensor busy", "<kernel"});
  for (const Timeline& timeline : timelines) {
    const TimelineFigures& figures = timeline.figures;
    table.add({timeline.name, fmt::format("{:.0f}", figures.step_cycles), fmt::format("{} x {}", timeline.spec.block_m(), timeline.spec.block_n),
               fmt::format("{:.0f}", figures.step_cycles / timeline.spec.consumer_warpgroups), fmt::format("{:.0f} %", 100 * figures.step_tensor_share),
               fmt::format("{:.0f}", figures.softmax_cycles), fmt::format("{:.0f}", figures.total_cycles),
               fmt::format("{:.0f} %", 100 * figures.total_tensor_share), name_of(timeline.spec)});
  }
  table.print();
}

// Fastest first.
std::string order_of(std::vector<Timeline> timelines) {
  std::stable_sort(timelines.begin(), timelines.end(), [](const Timeline& a, const Timeline& b) { return a.figures.total_cycles < b.figures.total_cycles; });
  std::string text;
  for (const Timeline& timeline : timelines) text += (text.empty() ? "" : ", then ") + timeline.name;
  return text;
}

void write_file(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write_text(text);
  file.commit();
}

void timeline(const TimelineOptions& options) {
  const Recorder recorder(options);
  std::vector<Timeline> timelines;
  {
    Progress progress("timeline", std::size(kSchedules));
    for (const Schedule& schedule : kSchedules) {
      progress.update(static_cast<std::size_t>(&schedule - kSchedules), schedule.name);
      if (options.schedules.empty() || std::find(options.schedules.begin(), options.schedules.end(), schedule.name) != options.schedules.end())
        timelines.push_back(recorder.record(schedule));
    }
  }
  const DrawOptions draw{.from = options.from, .cycles = options.cycles, .source = recorder.source()};
  if (!options.svg.empty()) write_file(options.svg, draw_svg(timelines, draw));
  if (!options.trace.empty()) write_file(options.trace, draw_trace(timelines));

  if (options.json) {
    Json json{{"command", "timeline"}, {"backend", options.backend}, {"source", recorder.source()}, {"problem", describe(recorder.problem())}};
    json["order"] = order_of(timelines);
    json["schedules"] = Json::array();
    for (const Timeline& each : timelines) json["schedules"].push_back(timeline_json(each));
    print_json(json);
    return;
  }
  Facts facts;
  facts.add("problem", describe(recorder.problem()));
  facts.add("time", recorder.source());
  facts.print();
  print_table(timelines);
  print_line(fmt::format("fastest first: {}", order_of(timelines)));
  for (const std::string& file : {options.svg, options.trace})
    if (!file.empty()) print_line(fmt::format("wrote {}", file));
}

}  // namespace

void add_timeline(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("timeline", "When the units of a multiprocessor are busy, for three schedules: in the Hopper model, or on a GPU");
  const auto options = std::make_shared<TimelineOptions>();
  command->add_option("--backend", options->backend, "model (predicted, needs no GPU) or hopper (measured)")
      ->check(CLI::IsMember({"model", "hopper"}))
      ->capture_default_str();
  command->add_option("--device", options->device, "CUDA device ordinal")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--cache-dir", options->cache_dir, "folder of compiled kernels; default as for run");
  command->add_option("--seqlen-q", options->seqlen_q, "queries of a head; each multiprocessor has one head")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seqlen-k", options->seqlen_k, "keys")->check(CLI::PositiveNumber)->capture_default_str();
  std::vector<std::string> names;
  for (const Schedule& schedule : kSchedules) names.emplace_back(schedule.name);
  command->add_option("--schedule", options->schedules, "only this one (repeatable)")->check(CLI::IsMember(names));
  command->add_option("--block", options->block, "whose timeline, of the grid")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--svg", options->svg, "write a picture");
  command->add_option("--from", options->from, "first cycle of the picture")->capture_default_str();
  command->add_option("--cycles", options->cycles, "cycles that the picture shows")->check(CLI::Range(100, 10'000'000))->capture_default_str();
  command->add_option("--trace", options->trace, "write a trace for ui.perfetto.dev");
  command->add_flag("--json", options->json, "output for machines, with every event");
  command->callback([options] { timeline(*options); });
}

}  // namespace tandem::cli
