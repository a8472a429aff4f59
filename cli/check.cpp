// tandem check: the self test. Cases against fp64 on the chosen backend.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention.hpp"
#include "backend_choice.hpp"
#include "check_case.hpp"
#include "command.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "progress.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

struct CheckOptions {
  BackendChoice backend;
  int random = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> cases;
  CallOptions call;
  bool json = false;
};

struct Outcome {
  CheckCase what;
  Judgement judgement;
  bool refused = false;  // the backend does not serve this case, and says so
};

// What the reference may cost a case: the fp64 of a large one would take longer than all kernels together.
double budget_of(std::string_view backend) { return backend == "model" ? 2e6 : backend == "hopper" ? 1e9 : 2e8; }

bool same_bits(const HostTensor& a, const HostTensor& b, const std::vector<float>& lse_a, const std::vector<float>& lse_b) {
  return a.storage == b.storage && std::memcmp(lse_a.data(), lse_b.data(), lse_a.size() * sizeof(float)) == 0;
}

Outcome check_case(const Context& context, MemorySpace& memory, const CheckCase& c, double budget) {
  Outcome outcome{.what = c, .judgement = {}};
  const AttentionInputs inputs = make_inputs(c);
  const HostTensor blank = make_output(c);
  if (const Status status = context.supports(arguments_of(inputs, blank)); !status.ok()) {
    outcome.refused = status.code() == StatusCode::unsupported;
    outcome.judgement.fault = status.message();
    return outcome;
  }
  Attention attention(context, memory, inputs, blank, true);
  attention.run();
  const HostTensor out = attention.out();
  const std::vector<float> lse = attention.lse();
  outcome.judgement = judge(inputs, out, lse, choose_rows(inputs, budget, c.seed));
  Judgement& judgement = outcome.judgement;
  const auto blame = [&](std::string fault) {
    judgement.right = false;
    judgement.fault = std::move(fault);
  };
  if (judgement.right && !gaps_untouched(out)) blame("memory between the elements of out was written");
  if (!judgement.right) return outcome;
  attention.run();
  if (!same_bits(out, attention.out(), lse, attention.lse())) blame("a second run gave other bits");
  return outcome;
}

std::vector<CheckCase> choose_cases(const CheckOptions& options, std::string_view backend) {
  std::vector<CheckCase> cases;
  for (const std::string& text : options.cases) cases.push_back(CheckCase::parse(text));
  if (!cases.empty()) return cases;
  const bool half_only = backend != "cpu";
  for (const CheckCase& c : fixed_cases()) {
    cases.push_back(c);
    if (half_only || cases.size() % 3 != 0) continue;
    cases.push_back(c);
    cases.back().dtype = DataType::fp32;
  }
  std::vector<DataType> dtypes{DataType::bf16, DataType::fp16};
  if (!half_only) dtypes.push_back(DataType::fp32);
  for (int i = 0; i < options.random; ++i) cases.push_back(random_case(options.seed, static_cast<std::uint64_t>(i), dtypes, budget_of(backend)));
  return cases;
}

std::string reproducer(const CheckCase& c, const std::string& backend) { return fmt::format("tandem check --backend {} --case \"{}\"", backend, c.text()); }

// What makes a kernel of its own.
std::string kind_of(const CheckCase& c) {
  std::string kind = c.mask.causal ? "causal" : "full";
  if (c.mask.windowed() || c.mask.attention_chunk > 0) kind += " local";
  if (c.softcap > 0) kind += " softcap";
  if (c.seqlens_q || c.seqlens_k || c.seqused_q || c.seqused_k) kind += " ragged";
  return kind;
}

// The worst of each kind of kernel: dtype, head dims, mask.
void print_worst(const std::vector<Outcome>& outcomes) {
  struct Worst {
    int cases = 0, wrong = 0;
    Judgement at_most;
  };
  std::map<std::string, Worst> kinds;
  for (const Outcome& outcome : outcomes) {
    if (outcome.refused) continue;
    const CheckCase& c = outcome.what;
    Worst& worst = kinds[fmt::format("{} {:>3}/{:<3} {}", name_of(c.dtype), c.head_dim, c.head_dim_v, kind_of(c))];
    ++worst.cases;
    worst.wrong += outcome.judgement.right ? 0 : 1;
    Judgement& most = worst.at_most;
    const Judgement& now = outcome.judgement;
    if (now.out_error * std::max(most.out_allowed, 1e-300) >= most.out_error * std::max(now.out_allowed, 1e-300)) {
      most.out_error = now.out_error;
      most.out_allowed = now.out_allowed;
    }
    if (now.lse_error * std::max(most.lse_allowed, 1e-300) >= most.lse_error * std::max(now.lse_allowed, 1e-300)) {
      most.lse_error = now.lse_error;
      most.lse_allowed = now.lse_allowed;
    }
  }
  Table table({"<dtype dims mask", "cases", "wrong", "out error", "allowed", "lse error", "allowed"});
  for (const auto& [kind, worst] : kinds) {
    const auto number = [](double value) { return value == 0 ? std::string("0") : fmt::format("{:.1e}", value); };
    table.add({kind, std::to_string(worst.cases), worst.wrong == 0 ? "0" : paint(Ink::bad, std::to_string(worst.wrong)), number(worst.at_most.out_error),
               number(worst.at_most.out_allowed), number(worst.at_most.lse_error), number(worst.at_most.lse_allowed)});
  }
  table.print();
}

Json outcome_json(const Outcome& outcome, const std::string& backend) {
  const Judgement& judgement = outcome.judgement;
  Json json{{"case", outcome.what.text()}, {"result", outcome.refused ? "refused" : judgement.right ? "right" : "wrong"}};
  if (!judgement.fault.empty()) json["fault"] = judgement.fault;
  if (!judgement.right) json["reproduce"] = reproducer(outcome.what, backend);
  json["rows_checked"] = judgement.rows_checked;
  json["rows_total"] = judgement.rows_total;
  json["out_error"] = judgement.out_error;
  json["out_allowed"] = judgement.out_allowed;
  json["lse_error"] = judgement.lse_error;
  json["lse_allowed"] = judgement.lse_allowed;
  return json;
}

void check(const CheckOptions& options, int& exit_code) {
  const Context context = options.backend.open();
  const std::string backend(context.backend());
  const auto memory = memory_of(backend, options.backend.device);
  std::vector<CheckCase> cases = choose_cases(options, backend);
  for (CheckCase& c : cases) c.apply(options.call);

  std::vector<Outcome> outcomes;
  {
    Progress progress("check", cases.size());
    for (const CheckCase& c : cases) {
      progress.update(outcomes.size(), c.text());
      outcomes.push_back(check_case(context, *memory, c, budget_of(backend)));
    }
  }
  std::size_t wrong = 0, refused = 0;
  for (const Outcome& outcome : outcomes) {
    refused += outcome.refused ? 1 : 0;
    wrong += !outcome.refused && !outcome.judgement.right ? 1 : 0;
  }
  exit_code = wrong + refused == 0 ? kExitOk : kExitCheckFailed;

  if (options.json) {
    Json json{{"command", "check"}, {"backend", backend}, {"cases", outcomes.size()}, {"wrong", wrong}, {"refused", refused}, {"outcomes", Json::array()}};
    for (const Outcome& outcome : outcomes) json["outcomes"].push_back(outcome_json(outcome, backend));
    print_json(json);
    return;
  }
  print_worst(outcomes);
  for (const Outcome& outcome : outcomes) {
    if (outcome.judgement.right) continue;
    print_line(fmt::format("\n{}: {}\n  {}", outcome.refused ? paint(Ink::warn, "refused") : paint(Ink::bad, "WRONG"), outcome.judgement.fault,
                           reproducer(outcome.what, backend)));
  }
  print_line(fmt::format("\n{} on {}: {} cases, {} wrong, {} refused", exit_code == kExitOk ? paint(Ink::good, "right") : paint(Ink::bad, "WRONG"), backend,
                         outcomes.size(), wrong, refused));
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("check", "Self test: fixed and random cases against fp64");
  const auto options = std::make_shared<CheckOptions>();
  options->backend.add_to(*command);
  command->add_option("--random", options->random, "random cases beside the fixed ones")->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--seed", options->seed, "of the random cases")->capture_default_str();
  command->add_option("--case", options->cases, "run this case instead, as a failure prints it: \"seqlen_q=129,head_dim=128,causal=1\"; repeatable")
      ->allow_extra_args(false);
  options->call.add_to(*command, "Laid over every case (--sinks: values follow from the seed)");
  command->add_flag("--json", options->json, "output for machines");
  command->callback([options, &exit_code] { check(*options, exit_code); });
}

}  // namespace tandem::cli
