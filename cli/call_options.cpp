#include "call_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "failure.hpp"
#include "host_tensor.hpp"

namespace tandem::cli {
namespace {

template <class T>
T parse_number(const std::string& name, std::string_view text, const char* wanted) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) fail("{} has '{}'; it must be {}", name, text, wanted);
  return value;
}

template <class T>
std::vector<T> parse_list(const std::string& name, std::string_view text, char separator, const char* wanted) {
  std::vector<T> values;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    values.push_back(parse_number<T>(name, text.substr(0, end), wanted));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) fail("{} ends in '{}'; it must be {} with '{}' between them", name, separator, wanted, separator);
  }
  return values;
}

bool is_file(const std::string& text) { return text.ends_with(".npy"); }

std::int32_t length_of(const std::string& name, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
    fail("{} has {}; a length is 0 to {}", name, value, std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(value);
}

}  // namespace

Lengths parse_lengths(const std::string& name, const std::string& text, char separator) {
  if (is_file(text)) return lengths_of(fmt::format("{} ({})", name, text), read_npy(text));
  Lengths lengths;
  for (const std::int64_t value : parse_list<std::int64_t>(name, text, separator, "lengths, whole numbers of 0 or more"))
    lengths.push_back(length_of(name, value));
  return lengths;
}

Lengths lengths_of(const std::string& label, const FileTensor& tensor) {
  Lengths lengths;
  for (const std::int64_t value : integers_of(label, tensor)) lengths.push_back(length_of(label, value));
  return lengths;
}

std::vector<float> parse_sinks(const std::string& name, const std::string& text, char separator) {
  if (is_file(text)) return floats_of(fmt::format("{} ({})", name, text), read_npy(text));
  return parse_list<float>(name, text, separator, "a number, or one for each query head");
}

Mask parse_window(const std::string& name, const std::string& text, char separator) {
  const auto sides = parse_list<std::int64_t>(name, text, separator, "LEFT,RIGHT: tokens on either side, -1 for open");
  if (sides.size() != 2) fail("{} is '{}'; it must be two numbers, LEFT{}RIGHT: tokens on either side, -1 for open", name, text, separator);
  return {.window_left = sides[0], .window_right = sides[1]};
}

Lengths cumulated(const std::string& name, const Lengths& lengths) {
  Lengths ends{0};
  for (const std::int32_t length : lengths) {
    const std::int64_t end = std::int64_t{ends.back()} + length;
    if (end > std::numeric_limits<std::int32_t>::max()) fail("{} adds up to more than {}", name, std::numeric_limits<std::int32_t>::max());
    ends.push_back(static_cast<std::int32_t>(end));
  }
  return ends;
}

std::string lengths_text(const Lengths& lengths) {
  constexpr std::size_t kMost = 6;
  if (lengths.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < std::min(lengths.size(), kMost); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", lengths[i]);
  return lengths.size() > kMost ? fmt::format("{},... ({} of them)", text, lengths.size()) : text;
}

std::string mask_text(const Mask& mask, float softcap, bool sinks) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  if (mask.causal) add("causal");
  if (mask.windowed()) {
    const auto side = [](std::int64_t tokens) { return tokens < 0 ? std::string("open") : std::to_string(tokens); };
    add(mask.causal && mask.window_right < 0 ? fmt::format("window {} to the left", mask.window_left)
                                             : fmt::format("window {},{}", side(mask.window_left), side(mask.window_right)));
  }
  if (mask.attention_chunk > 0) add(fmt::format("chunks of {}", mask.attention_chunk));
  if (softcap > 0) add(fmt::format("softcap {:g}", softcap));
  if (sinks) add("sinks");
  return text.empty() ? "none" : text;
}

Mask CallOptions::mask() const {
  Mask mask = window.value_or(Mask{});
  mask.causal = causal;
  mask.attention_chunk = attention_chunk;
  return mask;
}

void CallOptions::add_to(CLI::App& app, const std::string& group) {
  app.add_flag("--causal", causal, "query i sees keys up to its position p = i + seqlen_k - seqlen_q")->group(group);
  app.add_option_function<std::string>(
         "--window", [this](const std::string& text) { window = parse_window("--window", text); },
         "keys from p - LEFT to p + RIGHT are seen; -1: that side is open")
      ->type_name("LEFT,RIGHT")
      ->group(group);
  app.add_option("--attention-chunk", attention_chunk, "keys of the same chunk of so many positions are seen; 0: no chunks")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  app.add_option_function<std::string>(
         "--softcap",
         [this](const std::string& text) {
           softcap = parse_number<float>("--softcap", text, "0 (none), or the bound that scores approach");
           if (!std::isfinite(softcap) || softcap < 0) fail("--softcap is {}; it must be 0 (none), or the finite bound that scores approach", text);
         },
         "a score s becomes C tanh(s / C)")
      ->type_name("C")
      ->group(group);
  app.add_option_function<std::string>(
         "--sinks", [this](const std::string& text) { sinks = parse_sinks("--sinks", text); },
         "a logit that joins the softmax of every head, commas between if one a head; or an .npy file")
      ->type_name("S,S,...")
      ->group(group);
  const auto lengths = [&](const std::string& name, std::optional<Lengths>& place, const char* text) {
    app.add_option_function<std::string>(
           name, [name, &place](const std::string& value) { place = parse_lengths(name, value); }, text)
        ->type_name("N,N,...")
        ->group(group);
  };
  lengths("--seqlens-q", seqlens_q, "packed queries: lengths of sequences that lie one after the other in (1, rows, heads, dim); or an .npy file");
  lengths("--seqlens-k", seqlens_k, "the same of keys and values");
  lengths("--seqused-q", seqused_q, "queries of each sequence that are used; what follows them may be anything");
  lengths("--seqused-k", seqused_k, "the same of keys and values");
  app.add_option("--sm-margin", sm_margin, "multiprocessors left to others")->check(CLI::NonNegativeNumber)->group(group);
  app.add_flag("--batch-invariant", batch_invariant, "the bits of a row depend on its own sequence alone, whatever else is in the batch")->group(group);
}

}  // namespace tandem::cli
