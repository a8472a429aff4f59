// tandem run: attention on tensors from files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention.hpp"
#include "backend_choice.hpp"
#include "command.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "progress.hpp"
#include "run_files.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

constexpr double kCheckBudget = 4e9;  // multiplications of the fp64 reference: some seconds on a small machine

struct RunOptions {
  InputFiles input;
  OutputFiles output;
  BackendChoice backend;
  int repeat = 0;
  bool check = false, check_all = false, json = false;
};

struct Opened {
  Context context;
  std::string note;  // why it is not what one may have expected
};

// With "auto", what the GPU's kernels do not serve goes to the CPU, and that is said.
Opened open_for(const BackendChoice& choice, const ForwardArgs& args) {
  Context context = choice.open();
  const Status status = context.supports(args);
  if (status.ok()) {
    std::string note;
    if (choice.backend == "auto" && context.backend() != "hopper") {
      BackendChoice hopper = choice;
      hopper.backend = "hopper";
      if (const auto refused = Context::create(hopper.context_options()); !refused.ok()) note = refused.status().message();
    }
    return {std::move(context), std::move(note)};
  }
  if (choice.backend != "auto" || context.backend() == "cpu" || status.code() != StatusCode::unsupported) {
    const bool convertible = status.code() == StatusCode::unsupported && args.q.type() == DataType::fp32;
    throw Failure(status.message() + (convertible ? "; --dtype bf16 converts the tensors" : ""));
  }
  BackendChoice cpu = choice;
  cpu.backend = "cpu";
  Context fallback = cpu.open();
  require(fallback.supports(args));
  return {std::move(fallback), fmt::format("the GPU's kernels do not serve this call: {}", status.message())};
}

// As many runs as asked for; else up to five, as long as they take a second together.
std::vector<double> time_runs(Attention& attention, const std::string& backend, int repeat) {
  constexpr int kRuns = 5;
  constexpr double kEnough = 1.0;
  // The first run of a GPU loads and wakes; one of the model takes long, and the next would take as long.
  if (backend == "hopper" || (repeat > 1 && backend != "model")) attention.run();
  std::vector<double> seconds;
  double sum = 0;
  Progress progress("run", static_cast<std::size_t>(repeat));
  while (repeat > 0 ? std::ssize(seconds) < repeat : seconds.empty() || (backend != "model" && sum < kEnough && seconds.size() < kRuns)) {
    progress.update(seconds.size(), "");
    seconds.push_back(attention.memory().time([&] { attention.run(); }));
    sum += seconds.back();
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

Json tensor_json(const HostTensor& tensor) { return {{"shape", tensor.shape}, {"dtype", name_of(tensor.type)}}; }

Json judgement_json(const Judgement& judgement) {
  return {{"ok", judgement.right},
          {"fault", judgement.fault},
          {"rows_checked", judgement.rows_checked},
          {"rows_total", judgement.rows_total},
          {"out_error", judgement.out_error},
          {"out_allowed", judgement.out_allowed},
          {"out_rmse", judgement.out_rmse},
          {"lse_error", judgement.lse_error},
          {"lse_allowed", judgement.lse_allowed}};
}

// Of each sequence, as they are used.
std::string sequences_text(const AttentionInputs& inputs) {
  Lengths queries, keys;
  for (std::int64_t i = 0; i < inputs.sequences(); ++i) {
    queries.push_back(static_cast<std::int32_t>(inputs.queries(i).count));
    keys.push_back(static_cast<std::int32_t>(inputs.keys(i).count));
  }
  return fmt::format("{} sequences; queries{} {}; keys{} {}", inputs.sequences(), inputs.cu_seqlens_q ? " (packed)" : "", lengths_text(queries),
                     inputs.cu_seqlens_k ? " (packed)" : "", lengths_text(keys));
}

// The speed of the model says nothing about a GPU.
std::string time_text(const std::vector<double>& seconds, double flops, bool model) {
  const double median = seconds[seconds.size() / 2];
  std::string text = median < 1e-3 ? fmt::format("{:.1f} us", median * 1e6)
                     : median < 1  ? fmt::format("{:.3f} ms", median * 1e3)
                                   : fmt::format("{:.2f} s", median);
  if (seconds.size() > 1) text += fmt::format(" (median of {})", seconds.size());
  if (model) return text + " of the model on this CPU";
  if (median > 0) text += fmt::format(", {:.3g} TFLOP/s", flops / median * 1e-12);
  return text;
}

std::string check_text(const Judgement& judgement) {
  const std::string rows = judgement.rows_checked == judgement.rows_total
                               ? fmt::format("all {} rows", judgement.rows_total)
                               : fmt::format("a sample of {} of {} rows", judgement.rows_checked, judgement.rows_total);
  if (!judgement.right) return paint(Ink::bad, "WRONG") + fmt::format(": {} ({} compared with fp64)", judgement.fault, rows);
  return paint(Ink::good, "right") + fmt::format(": out within {:.2g} of fp64 ({:.2g} allowed), lse within {:.2g} ({:.2g} allowed), {}", judgement.out_error,
                                                 judgement.out_allowed, judgement.lse_error, judgement.lse_allowed, rows);
}

void run(const RunOptions& options, int& exit_code) {
  options.output.check();
  const LoadedInputs loaded = options.input.load();
  const AttentionInputs& inputs = loaded.inputs;
  const HostTensor blank = make_tensor({inputs.q.shape[0], inputs.q.shape[1], inputs.q.shape[2], inputs.v.shape[3]}, inputs.q.type, loaded.layout);
  const Opened opened = open_for(options.backend, arguments_of(inputs, blank));
  const std::string backend(opened.context.backend());
  const auto memory = memory_of(backend, options.backend.device);

  Attention attention(opened.context, *memory, inputs, blank, true);
  const std::vector<double> seconds = time_runs(attention, backend, options.repeat);
  const HostTensor out = attention.out();
  const std::vector<float> lse = attention.lse();
  const double flops = flops_of(inputs);

  std::optional<Judgement> judgement;
  if (options.check) {
    Progress progress("check against fp64", 0);
    judgement = judge(inputs, out, lse, choose_rows(inputs, options.check_all ? 1e300 : kCheckBudget, 1));
    exit_code = judgement->right ? kExitOk : kExitCheckFailed;
  }
  const std::vector<WrittenFile> written = options.output.write(loaded, out, lse);

  if (options.json) {
    Json json{{"command", "run"},
              {"backend", backend},
              {"note", opened.note},
              {"q", tensor_json(inputs.q)},
              {"k", tensor_json(inputs.k)},
              {"v", tensor_json(inputs.v)},
              {"out", tensor_json(out)},
              {"layout", options.input.layout()},
              {"causal", inputs.mask.causal},
              {"window", inputs.mask.windowed() ? Json::array({inputs.mask.window_left, inputs.mask.window_right}) : Json()},
              {"attention_chunk", inputs.mask.attention_chunk},
              {"softcap", inputs.softcap},
              {"sinks", !inputs.sinks.empty()},
              {"sequences", inputs.ragged() ? Json(inputs.sequences()) : Json()},
              {"sm_margin", inputs.sm_margin},
              {"batch_invariant", inputs.batch_invariant},
              {"softmax_scale", inputs.scale},
              {"plan", Json::parse(attention.plan().json(), nullptr, false)},
              {"runs", seconds.size()},
              {"seconds", {{"median", seconds[seconds.size() / 2]}, {"min", seconds.front()}, {"max", seconds.back()}}},
              {"flops", flops},
              {"tflops", backend == "model" ? Json() : Json(flops / std::max(seconds[seconds.size() / 2], 1e-12) * 1e-12)}};
    if (judgement) json["check"] = judgement_json(*judgement);
    json["written"] = Json::array();
    for (const WrittenFile& file : written) json["written"].push_back({{"file", file.path}, {"what", file.what}});
    print_json(json);
    return;
  }
  Facts facts;
  facts.add("q", fmt::format("{} {}", shape_text(inputs.q.shape), name_of(inputs.q.type)));
  facts.add("k", shape_text(inputs.k.shape));
  facts.add("v", shape_text(inputs.v.shape));
  facts.add("out", fmt::format("{}  (batch, seqlen, heads, dim)", shape_text(out.shape)));
  facts.add("mask", fmt::format("{}{}, scale {:.6g}", mask_text(inputs.mask, inputs.softcap, !inputs.sinks.empty()),
                                inputs.mask.any() ? ", aligned at the bottom right" : "", inputs.scale));
  if (inputs.ragged()) facts.add("lengths", sequences_text(inputs));
  facts.add("backend", opened.note.empty() ? backend : fmt::format("{} ({})", backend, opened.note));
  facts.add("schedule", schedule_text(attention.plan().json()));
  facts.add("time", time_text(seconds, flops, backend == "model"));
  if (judgement) facts.add("check", check_text(*judgement));
  for (const WrittenFile& file : written) facts.add("wrote", fmt::format("{} ({})", file.path, file.what));
  facts.print();
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "Attention on Q, K and V from files (.npy, .safetensors)");
  const auto options = std::make_shared<RunOptions>();
  options->input.add_to(*command);
  options->backend.add_to(*command);
  command->add_option("--repeat", options->repeat, "runs to take the median time of [up to 5 in a second]")->check(CLI::PositiveNumber);
  options->output.add_to(*command);
  command->add_flag("--check", options->check, "compare with fp64; of large problems a sample of rows. Exit code 1 if the result is wrong");
  command->add_flag("--check-all", options->check_all, "with --check: every row, however long it takes");
  command->add_flag("--json", options->json, "output for machines");
  command->callback([options, &exit_code] {
    options->check = options->check || options->check_all;
    run(*options, exit_code);
  });
}

}  // namespace tandem::cli
