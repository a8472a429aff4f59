// tandem compile: kernels ahead of time, by the compiler and the cache that serve at run time. Each kernel is compiled in a process of its
// own, so that its time and memory are its own.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "child.hpp"
#include "command.hpp"
#include "failure.hpp"
#include "file.hpp"
#include "jit/compiler.hpp"
#include "jit/kernel_store.hpp"
#include "jit/nvrtc.hpp"
#include "json_output.hpp"
#include "plan/planner.hpp"
#include "plan/shipped.hpp"
#include "plan/spec_text.hpp"
#include "problem_options.hpp"
#include "progress.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

struct CompileOptions {
  ProblemOptions problem;
  std::vector<std::string> specs;
  bool shipped = false, force = false, json = false;
  std::string output, cubin, cache_dir;
  std::size_t jobs = 0;
};

// What is compiled: a forward kernel, or the one that lists the tiles of a ragged batch before it.
struct Kernel {
  std::optional<ForwardSpec> spec;  // none: prepare_ragged, of which there is one

  // As --spec takes it.
  std::string text() const { return spec ? to_text(*spec) : std::string(jit::kPrepareName); }
  std::string name() const { return spec ? name_of(*spec) : std::string(jit::kPrepareName); }
  std::string source() const { return spec ? jit::kernel_source(*spec) : jit::prepare_source(); }
};

struct Outcome {
  Kernel kernel;
  std::string error;  // a sentence; empty: compiled
  double seconds = 0, cpu_seconds = 0, peak_mb = 0;
  int registers = 0, spill_bytes = 0;
  std::vector<std::string> advisories;
  bool cached = false;
  std::string nvrtc;

  bool clean() const { return error.empty() && spill_bytes == 0 && advisories.empty(); }
};

std::vector<Kernel> choose_kernels(const CompileOptions& options) {
  std::vector<Kernel> kernels;
  if (options.shipped) {
    if (!options.specs.empty() || options.problem.given()) fail("--shipped stands for all kernels that ship; it takes neither --spec nor a problem");
    for (std::size_t i = 0; i < kShippedCount; ++i) kernels.push_back({shipped_forward(i)});
    kernels.push_back({});
    return kernels;
  }
  if (options.specs.empty() && !options.problem.given()) fail("nothing to compile; pass --shipped, --spec, or the flags of a problem (as of tandem explain)");
  const ForwardSpec base = options.problem.given() ? require(plan_forward(options.problem.problem(), options.problem.device())).spec : ForwardSpec{};
  for (const std::string& text : options.specs) kernels.push_back(text == jit::kPrepareName ? Kernel{} : Kernel{require(parse_spec(text, base))});
  if (kernels.empty()) kernels.push_back({base});
  const bool ragged = std::any_of(kernels.begin(), kernels.end(), [](const Kernel& kernel) { return kernel.spec && kernel.spec->ragged; });
  const bool named = std::any_of(kernels.begin(), kernels.end(), [](const Kernel& kernel) { return !kernel.spec; });
  if (ragged && !named && options.cubin.empty()) kernels.push_back({});  // it runs before each of them
  return kernels;
}

bool holds(const jit::KernelCache& cache, const std::string& key) {
  const auto entries = cache.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.valid && entry.path.stem() == key; });
}

// Compiles whatever the cache holds, and keeps the result there.
Result<jit::CompiledKernel> compile_anew(const Kernel& kernel, const jit::KernelCache& cache, const std::string& version) {
  const std::string source = kernel.source();
  auto made = jit::compile(source, kernel.name());
  if (made.ok() && !cache.folder().empty() && !cache.store(jit::KernelCache::key(source, version), made.value()))
    return Status(StatusCode::unavailable, fmt::format("the kernel compiled, but {} cannot be written", cache.folder().string()));
  return made;
}

// In the child: what came of a kernel, as JSON.
std::string compile_one(const Kernel& kernel, const CompileOptions& options) {
  const auto compiler = jit::nvrtc();
  const std::string version = compiler.ok() ? compiler.value()->version() : std::string();
  const bool pack = !options.output.empty();
  const jit::KernelStore store(jit::KernelCache(pack ? options.output : options.cache_dir));
  // A pack is complete in itself: what another folder already serves is compiled for it all the same.
  const bool anew = options.force || (pack && !holds(store.cache(), jit::KernelCache::key(kernel.source(), version)));
  bool compiled = anew;
  if (anew) require(compiler);
  const auto note = [&](const std::string&, double) { compiled = true; };
  const auto get = [&] { return kernel.spec ? store.get(*kernel.spec, note) : store.get_prepare(note); };
  const jit::CompiledKernel made = require(anew ? compile_anew(kernel, store.cache(), version) : get());
  if (!options.cubin.empty()) {
    OutputFile file(options.cubin);
    file.write_text(made.cubin);
    file.commit();
  }
  return Json{{"seconds", compiled ? made.seconds : 0.0},
              {"registers", made.report.registers},
              {"spill_bytes", made.report.spill_bytes},
              {"advisories", made.report.advisories},
              {"cached", !compiled},
              {"nvrtc", version}}
      .dump();
}

Outcome read_outcome(const Kernel& kernel, const ChildResult& result) {
  Outcome outcome{.kernel = kernel, .error = {}, .advisories = {}, .nvrtc = {}};
  const Json json = Json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  if (!result.finished || !json.is_object()) {
    outcome.error = result.output.empty() ? "the child process failed" : result.output;
    return outcome;
  }
  outcome.seconds = json["seconds"].get<double>();
  outcome.cpu_seconds = result.cpu_seconds;
  outcome.peak_mb = result.peak_mb;
  outcome.registers = json["registers"].get<int>();
  outcome.spill_bytes = json["spill_bytes"].get<int>();
  outcome.advisories = json["advisories"].get<std::vector<std::string>>();
  outcome.cached = json["cached"].get<bool>();
  outcome.nvrtc = json["nvrtc"].get<std::string>();
  return outcome;
}

std::vector<Outcome> compile_all(const std::vector<Kernel>& kernels, const CompileOptions& options) {
  std::vector<Outcome> outcomes(kernels.size());
  std::vector<std::function<std::string()>> works;
  for (const Kernel& kernel : kernels) works.push_back([&kernel, &options] { return compile_one(kernel, options); });
  const std::size_t jobs = options.jobs == 0 ? std::max(1u, std::thread::hardware_concurrency()) : options.jobs;
  Progress progress("compile", kernels.size());
  progress.update(0, kernels.front().name());
  std::size_t done = 0;
  run_children(works, jobs, [&](std::size_t i, const ChildResult& result) {
    outcomes[i] = read_outcome(kernels[i], result);
    progress.update(++done, kernels[i].name());
  });
  return outcomes;
}

Json outcome_json(const Outcome& outcome) {
  Json json{{"name", outcome.kernel.name()}};
  if (!outcome.error.empty()) json["error"] = outcome.error;
  json["seconds"] = outcome.seconds;
  json["peak_mb"] = outcome.peak_mb;
  json["registers"] = outcome.registers;
  json["spill_bytes"] = outcome.spill_bytes;
  json["advisories"] = outcome.advisories;
  json["cached"] = outcome.cached;
  json["cpu_seconds"] = outcome.cpu_seconds;
  json["spec"] = outcome.kernel.text();
  return json;
}

void print_outcomes(const std::vector<Outcome>& outcomes) {
  Table table({"<kernel", "seconds", "CPU seconds", "peak MB", "registers", "spill bytes", "<advisories"});
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) {
      table.add({outcome.kernel.name(), "", "", "", "", "", paint(Ink::bad, "failed")});
      continue;
    }
    table.add({outcome.kernel.name(), outcome.cached ? "cached" : fmt::format("{:.2f}", outcome.seconds),
               outcome.cached ? "" : fmt::format("{:.2f}", outcome.cpu_seconds), outcome.cached ? "" : fmt::format("{:.0f}", outcome.peak_mb),
               std::to_string(outcome.registers), outcome.spill_bytes == 0 ? "0" : paint(Ink::bad, std::to_string(outcome.spill_bytes)),
               outcome.advisories.empty() ? "none" : paint(Ink::bad, std::to_string(outcome.advisories.size()))});
  }
  table.print();
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) print_line(fmt::format("\n{}: {}", outcome.kernel.name(), outcome.error));
    for (const std::string& advisory : outcome.advisories) print_line(fmt::format("\n{}: {}", outcome.kernel.name(), advisory));
  }
}

void compile(const CompileOptions& options, int& exit_code) {
  const std::vector<Kernel> kernels = choose_kernels(options);
  if (!options.cubin.empty() && kernels.size() != 1)
    fail("--cubin writes one kernel and {} are to be compiled; pass one --spec, or the flags of one problem", kernels.size());
  const std::vector<Outcome> outcomes = compile_all(kernels, options);
  const auto failed = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return !outcome.error.empty(); });
  if (failed == std::ssize(outcomes)) throw Failure(outcomes.front().error);  // nothing came of it: a missing compiler, not a faulty kernel
  const bool clean = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return outcome.clean(); });
  exit_code = clean ? kExitOk : kExitCheckFailed;

  std::string pack;
  if (!options.output.empty() && failed == 0) {
    const jit::KernelCache cache(options.output);
    if (!cache.label_pack(outcomes.front().nvrtc)) fail("{} cannot be written", options.output);
    pack = fmt::format("pack of {} kernels by NVRTC {} in {}; TANDEM_AOT_DIR names it to the library", outcomes.size(), outcomes.front().nvrtc, options.output);
  }
  if (options.json) {
    Json json = Json::array();
    for (const Outcome& outcome : outcomes) json.push_back(outcome_json(outcome));
    print_json(json);
    return;
  }
  print_outcomes(outcomes);
  if (!pack.empty()) print_line(pack);
}

}  // namespace

void add_compile(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("compile", "Compile kernels ahead of time. Needs NVRTC, no GPU");
  const auto options = std::make_shared<CompileOptions>();
  command->add_flag("--shipped", options->shipped, "all kernels that ship, and the one that lists the tiles of ragged batches");
  command
      ->add_option("--spec", options->specs,
                   "a kernel: \"head_dim=64,head_dim_v=64,causal=true\", on the defaults or on what the problem gets; or prepare_ragged; repeatable")
      ->allow_extra_args(false);
  options->problem.add_to(*command);
  command->add_option("--output", options->output, "write a pack into this folder instead of the cache")->type_name("DIR");
  command->add_option("--cubin", options->cubin, "write the machine code of one kernel into this file")->type_name("FILE");
  command->add_option("--cache-dir", options->cache_dir, "cache folder; default: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem");
  command->add_option("--jobs,-j", options->jobs, "kernels at a time; 0: one for each core")->capture_default_str();
  command->add_flag("--force", options->force, "compile even what the cache holds, and measure it");
  command->add_flag("--json", options->json, "output for machines: an array with an object for each kernel");
  command->callback([options, &exit_code] { compile(*options, exit_code); });
}

}  // namespace tandem::cli
