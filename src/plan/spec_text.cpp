#include "plan/spec_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "attention/budget.hpp"

namespace tandem {
namespace {

// Names of the enumerators, in the order of their values.
template <class T>
struct EnumText;
template <>
struct EnumText<DType> {
  static constexpr std::string_view type = "DType";
  static constexpr std::array<std::string_view, 2> names{"fp16", "bf16"};
};
template <>
struct EnumText<Turns> {
  static constexpr std::string_view type = "Turns";
  static constexpr std::array<std::string_view, 3> names{"none", "gemm_issue", "exp_section"};
};
template <>
struct EnumText<OutputStage> {
  static constexpr std::string_view type = "OutputStage";
  static constexpr std::array<std::string_view, 3> names{"registers", "q_buffer", "own"};
};
template <>
struct EnumText<Scheduler> {
  static constexpr std::string_view type = "Scheduler";
  static constexpr std::array<std::string_view, 3> names{"single_tile", "static_persistent", "dynamic_persistent"};
};

// The one list of fields that everything here is made from.
template <class Spec, class Visit>
void for_each_field(Spec& spec, Visit&& visit) {
  visit("dtype", spec.dtype);
  visit("head_dim", spec.head_dim);
  visit("head_dim_v", spec.head_dim_v);
  visit("causal", spec.causal);
  visit("local", spec.local);
  visit("softcap", spec.softcap);
  visit("ragged", spec.ragged);
  visit("consumer_warpgroups", spec.consumer_warpgroups);
  visit("block_n", spec.block_n);
  visit("stages", spec.stages);
  visit("q_buffers", spec.q_buffers);
  visit("ctas_per_sm", spec.ctas_per_sm);
  visit("cluster", spec.cluster);
  visit("overlap", spec.overlap);
  visit("q_in_registers", spec.q_in_registers);
  visit("lazy_rescale", spec.lazy_rescale);
  visit("turns", spec.turns);
  visit("output_stage", spec.output_stage);
  visit("scheduler", spec.scheduler);
  visit("timeline", spec.timeline);
}

// A field that is missing in the list above would change the size and go unnoticed otherwise.
static_assert(sizeof(ForwardSpec) == 60, "a field was added to ForwardSpec: add it to for_each_field, then update this size");

std::string value_text(bool value) { return value ? "true" : "false"; }
std::string value_text(int value) { return std::to_string(value); }
template <class T>
std::string value_text(T value) {
  return std::string(EnumText<T>::names.at(static_cast<std::size_t>(value)));
}

std::string value_code(bool value) { return value_text(value); }
std::string value_code(int value) { return value_text(value); }
template <class T>
std::string value_code(T value) {
  return fmt::format("tandem::{}::{}", EnumText<T>::type, value_text(value));
}

bool read_value(std::string_view text, bool& value) {
  value = text == "true" || text == "1";
  return value || text == "false" || text == "0";
}
bool read_value(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}
template <class T>
bool read_value(std::string_view text, T& value) {
  for (std::size_t i = 0; i < EnumText<T>::names.size(); ++i)
    if (EnumText<T>::names[i] == text) {
      value = static_cast<T>(i);
      return true;
    }
  return false;
}

std::string accepted(const bool&) { return "true or false"; }
std::string accepted(const int&) { return "an integer"; }
template <class T>
std::string accepted(const T&) {
  return fmt::format("one of {}", fmt::join(EnumText<T>::names, ", "));
}

}  // namespace

std::string to_text(const ForwardSpec& spec) {
  std::string text;
  for_each_field(spec, [&](std::string_view name, auto value) { text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value_text(value)); });
  return text;
}

std::string to_initializer(const ForwardSpec& spec) {
  std::string text;
  for_each_field(spec, [&](std::string_view name, auto value) { text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", name, value_code(value)); });
  return fmt::format("tandem::ForwardSpec{{{}}}", text);
}

std::string name_of(const ForwardSpec& spec) {
  std::string name = fmt::format("forward_{}_d{}", value_text(spec.dtype), spec.head_dim);
  if (spec.head_dim_v != spec.head_dim) name += fmt::format("v{}", spec.head_dim_v);
  name += fmt::format("_{}_m{}n{}", spec.causal ? "causal" : "full", spec.block_m(), spec.block_n);
  if (spec.local) name += "_local";
  if (spec.softcap) name += "_softcap";
  if (spec.ragged) name += "_ragged";
  if (spec.stages != 2) name += fmt::format("_s{}", spec.stages);
  if (spec.ctas_per_sm != 1) name += fmt::format("_x{}", spec.ctas_per_sm);
  if (spec.cluster != 1) name += fmt::format("_cluster{}", spec.cluster);
  if (spec.q_in_registers) name += "_qreg";
  if (spec.q_buffers != 1) name += fmt::format("_q{}", spec.q_buffers);
  if (!spec.overlap) name += "_serial";
  if (!spec.lazy_rescale) name += "_eager";
  if (spec.turns != Turns::gemm_issue) name += fmt::format("_turns_{}", value_text(spec.turns));
  name += fmt::format("_o_{}", value_text(spec.output_stage));
  if (spec.scheduler != Scheduler::dynamic_persistent) name += fmt::format("_{}", value_text(spec.scheduler));
  if (spec.timeline) name += "_timeline";
  return name;
}

nlohmann::json to_json(const ForwardSpec& spec) {
  nlohmann::json json;
  for_each_field(spec, [&]<class T>(std::string_view name, const T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int>)
      json[std::string(name)] = value;
    else
      json[std::string(name)] = value_text(value);
  });
  return json;
}

Result<ForwardSpec> parse_spec(std::string_view text, const ForwardSpec& base) {
  ForwardSpec spec = base;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return Status(StatusCode::invalid_argument, fmt::format("spec item '{}' is not of the form field=value", item));
    const std::string_view name = item.substr(0, equals), value = item.substr(equals + 1);
    bool known = false;
    std::string complaint, names;
    for_each_field(spec, [&](std::string_view field, auto& slot) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", field);
      if (field != name) return;
      known = true;
      if (!read_value(value, slot)) complaint = fmt::format("spec field {} is '{}'; it must be {}", field, value, accepted(slot));
    });
    if (!known) return Status(StatusCode::invalid_argument, fmt::format("spec has no field '{}'; the fields are {}", name, names));
    if (!complaint.empty()) return Status(StatusCode::invalid_argument, complaint);
  }
  if (const char* rule = budget::broken_rule(spec)) return Status(StatusCode::invalid_argument, fmt::format("spec {}: {}", to_text(spec), rule));
  return spec;
}

std::size_t hash_of(const ForwardSpec& spec) {
  std::size_t hash = 14695981039346656037ull;  // FNV-1a over the values
  for_each_field(spec, [&](std::string_view, auto value) { hash = (hash ^ static_cast<std::size_t>(value)) * 1099511628211ull; });
  return hash;
}

}  // namespace tandem
