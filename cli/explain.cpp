// tandem explain: which kernel a problem gets and why, with the arithmetic behind it. Needs no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "attention/budget.hpp"
#include "command.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "key_blocks.hpp"
#include "plan/planner.hpp"
#include "plan/roofline.hpp"
#include "plan/spec_text.hpp"
#include "problem_options.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

constexpr int kBarWidth = 30;

struct ExplainOptions {
  ProblemOptions problem;
  std::string spec;
  bool json = false;
};

struct Item {
  const char* name;
  const char* text;
  double amount;
};

std::vector<Item> shared_items(const budget::SharedLedger& ledger) {
  return {{"q", "Q tile, all its buffers", static_cast<double>(ledger.q)},
          {"k", "ring of K tiles", static_cast<double>(ledger.k)},
          {"v", "ring of V tiles", static_cast<double>(ledger.v)},
          {"output", "O on its way out", static_cast<double>(ledger.output)},
          {"barriers", "barriers and tile ring", static_cast<double>(ledger.barriers)}};
}

std::vector<Item> register_items(const budget::RegisterLedger& ledger) {
  return {{"scores", "S, fp32", static_cast<double>(ledger.scores)},
          {"output", "O, fp32", static_cast<double>(ledger.output)},
          {"probabilities", "P, 16 bits", static_cast<double>(ledger.probabilities)},
          {"query", "Q, 16 bits", static_cast<double>(ledger.query)},
          {"other", "rows, addresses, loop", static_cast<double>(ledger.other)}};
}

std::vector<Item> roofline_items(const Roofline& roof) {
  return {{"tensor", "WGMMA, and what FP32 instructions take from it", roof.tensor + roof.interference},
          {"interference", "  of which FP32 interference", roof.interference},
          {"exp", "exponentials", roof.exp},
          {"shared", "shared memory: operands and arriving tiles", roof.shared},
          {"issue", "warp instructions", roof.issue}};
}

std::vector<Item> block_items(const KeyBlocks& blocks) {
  return {{"rectangle", "of the full rectangle", static_cast<double>(blocks.rectangle)},
          {"skipped", "skipped: nobody sees them", static_cast<double>(blocks.skipped())},
          {"masked", "visited and masked", static_cast<double>(blocks.masked)},
          {"whole", "visited whole", static_cast<double>(blocks.whole())}};
}

// How the tiles fill the device: the last round of blocks may leave multiprocessors idle.
struct Waves {
  double slots = 0, rounds = 0, idle_share = 0;
};

// In which order the tiles come.
std::string order_text(const TileOrder& order) {
  std::string text = fmt::format("{} section{} of {} (batch, head) pairs, whose keys stay in the L2 cache", order.last_section + 1,
                                 order.last_section > 0 ? "s" : "", order.pairs_per_section);
  if (order.held_back > 0)
    text += fmt::format("; the {} shortest of {} query tiles of each head come after all of them, so that none waits for the last long ones", order.held_back,
                        order.m_blocks);
  return text;
}

// `tiles`: of the launch; of a ragged batch those of its lengths, which the launch does not know.
Waves waves_of(const ForwardPlan& plan, const ForwardProblem& problem, const DeviceShape& device, double tiles) {
  Waves waves;
  waves.slots = static_cast<double>(std::max(device.multiprocessors - problem.sm_margin, 1)) * plan.spec.ctas_per_sm / plan.spec.cluster;
  waves.rounds = tiles / waves.slots;
  waves.idle_share = waves.rounds > 0 ? 1 - waves.rounds / std::ceil(waves.rounds) : 1;
  return waves;
}

Mask mask_of(const ForwardProblem& problem) {
  return {.causal = problem.causal, .window_left = problem.window_left, .window_right = problem.window_right, .attention_chunk = problem.attention_chunk};
}

// Of one head; of a ragged batch over all its sequences.
KeyBlocks blocks_of(const ForwardPlan& plan, const ForwardProblem& problem, const ProblemOptions& options) {
  KeyBlocks blocks;
  for (const auto& [seqlen_q, seqlen_k] : options.sequences()) blocks += count_key_blocks(plan.spec, mask_of(problem), seqlen_q, seqlen_k);
  return blocks;
}

Json items_json(const std::vector<Item>& items) {
  Json json;
  for (const Item& item : items) json[item.name] = item.amount;
  return json;
}

void print_items(const std::vector<Item>& items, double whole, const char* unit, const char* format) {
  Table table({"<", unit, "<"});
  for (const Item& item : items)
    if (item.amount > 0) table.add({item.text, fmt::format(fmt::runtime(format), item.amount), bar(item.amount / whole, kBarWidth)});
  table.print();
}

void explain(const ExplainOptions& options) {
  const ForwardProblem problem = options.problem.problem();
  const DeviceShape device = options.problem.device();
  const ForwardPlan plan = require(plan_forward(problem, device, options.spec));
  const ForwardSpec& spec = plan.spec;
  const ForwardSpec modelled = model_spec(problem, device);
  const budget::SharedLedger shared = budget::shared_ledger(spec);
  const budget::RegisterLedger registers = budget::register_ledger(spec);
  const budget::RegisterSplit split = budget::register_split(spec);
  const Roofline roof = roofline(spec);
  const KeyBlocks blocks = blocks_of(plan, problem, options.problem);
  const double tiles = static_cast<double>(spec.ragged ? blocks.tiles * problem.num_heads : plan.geometry.order.tiles);
  const Waves waves = waves_of(plan, problem, device, tiles);
  const std::string described = describe(problem, options.problem.call().softcap);

  if (options.json) {
    Json json{{"command", "explain"},       {"problem", described},  {"kernel", name_of(spec)}, {"spec", Json::parse(to_json(spec).dump())},
              {"spec_text", to_text(spec)}, {"reason", plan.reason}, {"tuned", plan.tuned},     {"model_choice", name_of(modelled)}};
    json["launch"] = {{"tiles", plan.geometry.order.tiles},
                      {"grid", plan.geometry.grid},
                      {"threads", plan.geometry.threads},
                      {"cluster", plan.geometry.cluster},
                      {"waves", waves.rounds},
                      {"tail_idle", waves.idle_share},
                      {"sections", plan.geometry.order.last_section + 1},
                      {"held_back", plan.geometry.order.held_back},
                      {"workspace_bytes", plan.geometry.workspace_bytes},
                      {"planned_on_device", spec.ragged},
                      {"tile_list_entries", plan.geometry.list_capacity}};
    json["key_blocks"] = {{"tiles", blocks.tiles},   {"rectangle", blocks.rectangle}, {"visited", blocks.visited}, {"masked", blocks.masked},
                          {"whole", blocks.whole()}, {"skipped", blocks.skipped()},   {"saved", blocks.saved()}};
    json["shared_bytes"] = items_json(shared_items(shared));
    json["shared_bytes"]["total"] = shared.total();
    json["shared_bytes"]["allowed"] = budget::shared_bytes_allowed(spec);
    json["registers"] = items_json(register_items(registers));
    json["registers"]["total"] = registers.total();
    json["registers"]["split"] = {{"launch", split.launch}, {"producer", split.producer}, {"consumer", split.consumer}};
    json["step_cycles"] = items_json(roofline_items(roof));
    json["step_cycles"]["bound"] = roof.bound();
    json["step_cycles"]["binding"] = roof.binding();
    print_json(json);
    return;
  }

  Facts facts;
  facts.add("problem", described);
  facts.add("kernel", name_of(spec));
  facts.add("why", plan.reason);
  if (plan.tuned) facts.add("the model alone", modelled == spec ? "chooses the same" : name_of(modelled));
  facts.add("spec", to_text(spec));
  facts.add("tile", fmt::format("{} queries x {} keys a step, {} stages, {} consumer warpgroup{} and a producer, {} block{} a multiprocessor", spec.block_m(),
                                spec.block_n, spec.stages, spec.consumer_warpgroups, spec.consumer_warpgroups == 1 ? "" : "s", spec.ctas_per_sm,
                                spec.ctas_per_sm == 1 ? "" : "s"));
  facts.add("launch", fmt::format("{}{} tiles on a grid of {} blocks of {} threads", spec.ragged ? "at most " : "", plan.geometry.order.tiles,
                                  plan.geometry.grid, plan.geometry.threads));
  if (spec.ragged)
    facts.add("planned on the device", fmt::format("lengths are read when the call runs: a kernel of one block lists the tiles, heaviest first; room for {} "
                                                   "(each for all heads) in a workspace of {} bytes",
                                                   plan.geometry.list_capacity, plan.geometry.workspace_bytes));
  facts.add("waves", fmt::format("{:.2f} rounds of {:.0f} tiles; {:.0f} % of the device idle if all tiles were equal", waves.rounds, waves.slots,
                                 100 * waves.idle_share));
  if (!spec.ragged) facts.add("order", order_text(plan.geometry.order));
  facts.print();

  print_line(paint(Ink::bold, fmt::format("\nKey blocks of a head: {} query tiles of {} x key blocks of {}{}; the mask saves {:.0f} % of the work",
                                          blocks.tiles, spec.block_m(), spec.block_n, spec.ragged ? ", all sequences together" : "", 100 * blocks.saved())));
  print_items(block_items(blocks), static_cast<double>(std::max<std::int64_t>(blocks.rectangle, 1)), "blocks", "{:.0f}");

  print_line(paint(Ink::bold, fmt::format("\nShared memory: {} of {} bytes a block", shared.total(), budget::shared_bytes_allowed(spec))));
  print_items(shared_items(shared), budget::shared_bytes_allowed(spec), "bytes", "{:.0f}");

  print_line(paint(Ink::bold, fmt::format("\nRegisters of a consumer thread: {} of {}", registers.total(), split.consumer)));
  print_items(register_items(registers), split.consumer, "registers", "{:.0f}");
  print_line(fmt::format("setmaxnreg: launched with {} a thread; the producer keeps {}, a consumer takes {}: 128 x ({} + {} x {}) = {} of {}", split.launch,
                         split.producer, split.consumer, split.producer, spec.consumer_warpgroups, split.consumer,
                         128 * (split.producer + spec.consumer_warpgroups * split.consumer) * spec.ctas_per_sm, budget::kRegistersPerSm) +
             (spec.ctas_per_sm == 1 ? "" : fmt::format(" by {} blocks", spec.ctas_per_sm)));

  print_line(paint(Ink::bold, fmt::format("\nRoofline of a step: {:.0f} cycles, bound by {}; the tensor core is busy {:.0f} % of them at most", roof.bound(),
                                          roof.binding(), 100 * roof.tensor / roof.bound())));
  print_items(roofline_items(roof), roof.bound(), "cycles", "{:.0f}");
}

}  // namespace

void add_explain(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("explain", "The kernel for a problem, and why: ledgers, launch, roofline. No GPU needed");
  const auto options = std::make_shared<ExplainOptions>();
  options->problem.add_to(*command);
  command->add_option("--spec", options->spec, "change fields of the chosen spec: \"block_n=96,turns=none\"");
  command->add_flag("--json", options->json, "output for machines");
  command->callback([options] { explain(*options); });
}

}  // namespace tandem::cli
