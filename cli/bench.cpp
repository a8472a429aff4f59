// tandem bench: a grid of problems, timed. Random normal inputs (zeros run faster); the contenders of a problem in turn, over several rounds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention.hpp"
#include "backend_choice.hpp"
#include "command.hpp"
#include "failure.hpp"
#include "host_cost.hpp"
#include "json_output.hpp"
#include "progress.hpp"
#include "spec_override.hpp"
#include "table.hpp"
#include "terminal.hpp"
#include "values.hpp"

namespace tandem::cli {
namespace {

struct BenchOptions {
  BackendChoice backend;
  std::vector<std::int64_t> head_dims, seqlens;
  std::int64_t batch = 0, heads = 0, heads_kv = 0, tokens = 0, hidden = 2048;
  std::string causal = "both", dtype = "bf16";
  std::vector<std::string> specs;
  int rounds = 5;
  double min_ms = 10;
  bool host = false, json = false;
};

struct Point {
  std::int64_t head_dim, seqlen, batch, heads, heads_kv;
  bool causal;
};

struct Contender {
  std::string spec;  // override; empty: the plan's own choice
  std::string kernel, error;
  std::vector<double> seconds = {};  // of a run, one a round
};

struct Row {
  Point point;
  double flops;
  std::vector<Contender> contenders;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// What is not said: 16,384 tokens and hidden size 2048 on a GPU, as in the literature; an eighth of the tokens on a CPU.
std::vector<Point> make_grid(const BenchOptions& options, std::string_view backend) {
  const bool gpu = backend == "hopper";
  const std::int64_t tokens = options.tokens > 0 ? options.tokens : gpu ? 16384 : backend == "model" ? 256 : 2048;
  std::vector<std::int64_t> head_dims = options.head_dims, seqlens = options.seqlens;
  if (head_dims.empty()) head_dims = gpu ? std::vector<std::int64_t>{64, 128, 256} : std::vector<std::int64_t>{64, 128};
  if (seqlens.empty())
    for (std::int64_t seqlen = std::min<std::int64_t>(512, tokens); seqlen <= tokens; seqlen *= 2) seqlens.push_back(seqlen);
  std::vector<Point> grid;
  for (const std::int64_t head_dim : head_dims)
    for (const bool causal : {false, true}) {
      if ((options.causal == "yes" && !causal) || (options.causal == "no" && causal)) continue;
      for (const std::int64_t seqlen : seqlens) {
        const std::int64_t heads = options.heads > 0 ? options.heads : std::max<std::int64_t>(1, options.hidden / head_dim);
        grid.push_back({.head_dim = head_dim,
                        .seqlen = seqlen,
                        .batch = options.batch > 0 ? options.batch : std::max<std::int64_t>(1, tokens / seqlen),
                        .heads = heads,
                        .heads_kv = options.heads_kv > 0 ? options.heads_kv : heads,
                        .causal = causal});
      }
    }
  return grid;
}

AttentionInputs make_inputs(const Point& point, DataType dtype) {
  AttentionInputs inputs{.q = make_tensor({point.batch, point.seqlen, point.heads, point.head_dim}, dtype, Layout::bshd),
                         .k = make_tensor({point.batch, point.seqlen, point.heads_kv, point.head_dim}, dtype, Layout::bshd),
                         .v = make_tensor({point.batch, point.seqlen, point.heads_kv, point.head_dim}, dtype, Layout::bshd),
                         .scale = 1.0f / std::sqrt(static_cast<float>(point.head_dim)),
                         .mask = {.causal = point.causal}};
  fill(inputs.q, Values::normal, 1);
  fill(inputs.k, Values::normal, 2);
  fill(inputs.v, Values::normal, 3);
  return inputs;
}

std::string kernel_of(std::string_view plan_json) {
  const Json plan = Json::parse(plan_json, nullptr, /*allow_exceptions=*/false);
  return plan.is_object() && plan.contains("kernel") ? plan["kernel"].get<std::string>() : std::string();
}

// Prepares every contender, then times them in turn. A round runs each for at least `min_ms`, so that the clock's grain does not count.
Row time_point(const Context& context, MemorySpace& memory, const Point& point, const BenchOptions& options, const std::function<void(std::string)>& report) {
  const AttentionInputs inputs = make_inputs(point, parse_data_type(options.dtype));
  const HostTensor blank = make_tensor(inputs.q.shape, inputs.q.type, Layout::bshd);
  Row row{.point = point, .flops = flops_of(inputs), .contenders = {}};
  std::vector<std::unique_ptr<Attention>> attentions;
  std::vector<int> counts;
  for (const std::string& spec : options.specs.empty() ? std::vector<std::string>{""} : options.specs) {
    report(spec);
    Contender contender{.spec = spec, .kernel = {}, .error = {}};
    const SpecOverride override(spec);
    try {
      auto attention = std::make_unique<Attention>(context, memory, inputs, blank, true);
      contender.kernel = kernel_of(attention->plan().json());
      attention->run();
      const double once = memory.time([&] { attention->run(); });
      counts.push_back(context.backend() == "model" ? 1 : std::clamp(static_cast<int>(options.min_ms * 1e-3 / std::max(once, 1e-7)), 1, 1000));
      attentions.push_back(std::move(attention));
    } catch (const Failure& failure) {
      contender.error = failure.what();
      counts.push_back(0);
      attentions.push_back(nullptr);
    }
    row.contenders.push_back(std::move(contender));
  }
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < attentions.size(); ++i) {
      if (!attentions[i]) continue;
      report(fmt::format("round {}", round + 1));
      const double seconds = memory.time([&] {
        for (int n = 0; n < counts[i]; ++n) attentions[i]->run();
      });
      row.contenders[i].seconds.push_back(seconds / counts[i]);
    }
  return row;
}

Json row_json(const Row& row, const BenchOptions& options) {
  const Point& point = row.point;
  Json json{{"dtype", options.dtype}, {"head_dim", point.head_dim}, {"causal", point.causal},     {"seqlen", point.seqlen},
            {"batch", point.batch},   {"heads", point.heads},       {"heads_kv", point.heads_kv}, {"contenders", Json::array()}};
  for (const Contender& contender : row.contenders) {
    Json entry{{"spec", contender.spec}, {"kernel", contender.kernel}};
    if (!contender.error.empty()) entry["error"] = contender.error;
    const double seconds = median(contender.seconds);
    entry["seconds"] = seconds;
    entry["tflops"] = seconds > 0 ? row.flops / seconds * 1e-12 : 0.0;
    json["contenders"].push_back(std::move(entry));
  }
  return json;
}

void print_rows(const std::vector<Row>& rows, const BenchOptions& options, const std::string& backend) {
  print_line(fmt::format("{} forward on {}{}, TFLOP/s, median of {} rounds\n", options.dtype, backend,
                         backend == "model" ? " (time of the model, not of a GPU)" : "", options.rounds));
  std::vector<std::string> titles{"head dim", "<mask", "seqlen", "batch", "heads", "time"};
  const std::size_t contenders = rows.front().contenders.size();
  if (contenders == 1) {
    titles.emplace_back("TFLOP/s");
    titles.emplace_back("<kernel");
  } else {
    for (std::size_t i = 0; i < contenders; ++i) titles.push_back(fmt::format("[{}]", i + 1));
  }
  Table table(titles);
  for (const Row& row : rows) {
    const double first = median(row.contenders.front().seconds);
    std::vector<std::string> cells{std::to_string(row.point.head_dim), row.point.causal ? "causal" : "full",
                                   std::to_string(row.point.seqlen),   std::to_string(row.point.batch),
                                   std::to_string(row.point.heads),    first > 0 ? fmt::format("{:.3f} ms", first * 1e3) : "-"};
    for (const Contender& contender : row.contenders) {
      const double seconds = median(contender.seconds);
      cells.push_back(seconds > 0 ? fmt::format("{:.4g}", row.flops / seconds * 1e-12) : "-");
    }
    if (contenders == 1) cells.push_back(row.contenders.front().kernel);
    table.add(std::move(cells));
  }
  table.print();
  if (contenders > 1) print_line();
  for (std::size_t i = 0; contenders > 1 && i < contenders; ++i) {
    const std::string& spec = rows.front().contenders[i].spec;
    print_line(fmt::format("[{}] {}", i + 1, spec.empty() ? "as planned" : spec));
  }
  for (const Row& row : rows)
    for (const Contender& contender : row.contenders)
      if (!contender.error.empty())
        print_line(fmt::format("\nhead dim {} {} {}: {}", row.point.head_dim, row.point.causal ? "causal" : "full", row.point.seqlen, contender.error));
}

void print_host_cost(const HostCost& cost) {
  Facts facts;
  facts.add("run, prepared", fmt::format("{:.2f} us a call, median; {:.2f} us at the 90th percentile; medians of five processes from {:.2f} to {:.2f}",
                                         cost.run_median_us, cost.run_p90_us, cost.run_least_us, cost.run_most_us));
  facts.add("first call, empty cache", fmt::format("{:.1f} ms", cost.cold_ms));
  facts.add("first call, warm cache",
            fmt::format("{:.1f} ms, of which {:.1f} ms open the context and {:.1f} ms prepare", cost.warm_ms, cost.warm_context_ms, cost.warm_prepare_ms));
  if (cost.backend == "hopper") facts.add("CUDA's own context", fmt::format("{:.1f} ms, before that", cost.cuda_context_ms));
  facts.print();
}

void bench(const BenchOptions& options) {
  if (options.host) {  // in child processes, and so before this one opens a driver
    const HostCost cost = measure_host_cost(options.backend, parse_data_type(options.dtype));
    if (options.json)
      print_json({{"command", "bench"},
                  {"backend", cost.backend},
                  {"host",
                   {{"run_median_us", cost.run_median_us},
                    {"run_p90_us", cost.run_p90_us},
                    {"run_least_us", cost.run_least_us},
                    {"run_most_us", cost.run_most_us},
                    {"first_call_cold_ms", cost.cold_ms},
                    {"first_call_warm_ms", cost.warm_ms},
                    {"warm_context_ms", cost.warm_context_ms},
                    {"warm_prepare_ms", cost.warm_prepare_ms},
                    {"cuda_context_ms", cost.cuda_context_ms}}}});
    else
      print_host_cost(cost);
    return;
  }
  const Context context = options.backend.open();
  const std::string backend(context.backend());
  if (!options.specs.empty() && backend == "cpu") fail("--spec changes the schedule of a Hopper kernel and the backend is cpu; pass --backend hopper or model");
  const auto memory = memory_of(backend, options.backend.device);
  const std::vector<Point> grid = make_grid(options, backend);
  std::vector<Row> rows;
  {
    Progress progress("bench", grid.size());
    for (const Point& point : grid) {
      const auto report = [&](const std::string& detail) {
        progress.update(rows.size(), fmt::format("head dim {} {} seqlen {} {}", point.head_dim, point.causal ? "causal" : "full", point.seqlen, detail));
      };
      rows.push_back(time_point(context, *memory, point, options, report));
    }
  }
  if (options.json) {
    Json json{{"command", "bench"}, {"backend", backend}, {"rounds", options.rounds}, {"rows", Json::array()}};
    for (const Row& row : rows) json["rows"].push_back(row_json(row, options));
    print_json(json);
    return;
  }
  print_rows(rows, options, backend);
}

}  // namespace

void add_bench(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("bench", "Time a grid of problems");
  const auto options = std::make_shared<BenchOptions>();
  options->backend.add_to(*command);
  command->add_option("--head-dim", options->head_dims, "head dims, commas between [64,128,256; without a GPU 64,128]")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--seqlen", options->seqlens, "lengths of queries and keys, commas between [512, doubled up to --tokens]")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--tokens", options->tokens, "batch times length [16384; on a CPU 2048]")->check(CLI::PositiveNumber);
  command->add_option("--hidden", options->hidden, "heads times head dim")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--batch", options->batch, "batch entries, whatever --tokens says")->check(CLI::PositiveNumber);
  command->add_option("--heads", options->heads, "query heads, whatever --hidden says")->check(CLI::PositiveNumber);
  command->add_option("--heads-kv", options->heads_kv, "heads of K and V [as the query heads]")->check(CLI::PositiveNumber);
  command->add_option("--causal", options->causal, "yes, no or both")->check(CLI::IsMember({"yes", "no", "both"}))->capture_default_str();
  command->add_option("--dtype", options->dtype, "fp16, bf16, or on the CPU fp32")->check(CLI::IsMember({"fp16", "bf16", "fp32"}))->capture_default_str();
  command
      ->add_option("--spec", options->specs,
                   R"(change fields of the chosen spec: "block_n=96,turns=none"; repeated: contenders side by side, "" for the plan's own)")
      ->allow_extra_args(false);
  command->add_option("--rounds", options->rounds, "rounds to take the median of")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--min-ms", options->min_ms, "time that a contender runs in a round")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_flag("--host", options->host, "what the host pays instead: for a run call, and for the first call with an empty and a warm cache");
  command->add_flag("--json", options->json, "output for machines");
  command->callback([options] { bench(*options); });
}

}  // namespace tandem::cli
