#include "check_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <random>

#include "failure.hpp"

namespace tandem::cli {
namespace {

constexpr std::pair<Placement, std::string_view> kPlacements[] = {
    {Placement::bshd, "bshd"}, {Placement::bhsd, "bhsd"}, {Placement::padded, "padded"}, {Placement::slice, "slice"}, {Placement::expanded, "expanded"}};

std::string_view name_of(Placement placement) {
  for (const auto& [value, name] : kPlacements)
    if (value == placement) return name;
  return "?";
}

template <class T>
T parse_number(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) fail("--case: {} is '{}', which is not a number that fits", name, text);
  return value;
}

// Room for the tensor, every place NaN.
HostTensor place(const Shape& shape, DataType type, Placement placement) {
  constexpr std::int64_t kGap = 8;  // elements: keeps rows at multiples of 16 bytes
  HostTensor tensor{.type = type, .shape = shape, .storage = {}};
  const auto [batch, seqlen, heads, dim] = shape;
  std::int64_t places = tensor.elements();
  switch (placement) {
    case Placement::bshd: tensor.stride = contiguous_stride(shape); break;
    case Placement::bhsd: tensor.stride = heads_first_stride(shape); break;
    case Placement::padded: {
      const std::int64_t row = heads * (dim + kGap);
      tensor.stride = {(seqlen + 3) * row, row, dim + kGap, 1};
      tensor.offset = kGap;
      places = batch * tensor.stride[0] + kGap;
      break;
    }
    case Placement::slice:
      tensor.stride = contiguous_stride({batch, seqlen + 13, heads, dim});
      places = batch * tensor.stride[0];
      break;
    case Placement::expanded:
      tensor.stride = contiguous_stride(shape);
      tensor.stride[0] = 0;
      places = seqlen * heads * dim;
      break;
  }
  tensor.storage.assign(static_cast<std::size_t>(places) * size_of(type), std::byte{0xff});
  return tensor;
}

}  // namespace

std::string CheckCase::text() const {
  std::string text =
      fmt::format("batch={},seqlen_q={},seqlen_k={},heads={},heads_kv={},head_dim={},head_dim_v={},dtype={},causal={},layout={},values={}", batch, seqlen_q,
                  seqlen_k, heads, heads_kv, head_dim, head_dim_v, tandem::name_of(dtype), causal ? 1 : 0, name_of(layout), cli::name_of(values));
  if (scale) text += fmt::format(",scale={}", *scale);
  return text + fmt::format(",seed={}", seed);
}

CheckCase CheckCase::parse(const std::string& text) {
  CheckCase c;
  bool has_dim_v = false, has_heads_kv = false, has_seqlen_k = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) fail("--case: '{}' is not of the form field=value", item);
    const std::string name = item.substr(0, equals), value = item.substr(equals + 1);
    const std::pair<std::string_view, std::int64_t*> sizes[] = {{"batch", &c.batch},          {"seqlen_q", &c.seqlen_q}, {"seqlen_k", &c.seqlen_k},
                                                                {"heads", &c.heads},          {"heads_kv", &c.heads_kv}, {"head_dim", &c.head_dim},
                                                                {"head_dim_v", &c.head_dim_v}};
    const auto size = std::find_if(std::begin(sizes), std::end(sizes), [&](const auto& entry) { return entry.first == name; });
    if (size != std::end(sizes)) {
      *size->second = parse_number<std::int64_t>(name, value);
      if (*size->second < 0 || *size->second > 1 << 26) fail("--case: {} is {}; it must be 0 to {}", name, value, 1 << 26);
      has_dim_v = has_dim_v || name == "head_dim_v";
      has_heads_kv = has_heads_kv || name == "heads_kv";
      has_seqlen_k = has_seqlen_k || name == "seqlen_k";
    } else if (name == "dtype") {
      c.dtype = parse_data_type(value);
    } else if (name == "causal") {
      if (value != "0" && value != "1") fail("--case: causal is '{}'; it must be 0 or 1", value);
      c.causal = value == "1";
    } else if (name == "layout") {
      const auto found = std::find_if(std::begin(kPlacements), std::end(kPlacements), [&](const auto& entry) { return entry.second == value; });
      if (found == std::end(kPlacements)) fail("--case: layout is '{}'; it must be bshd, bhsd, padded, slice or expanded", value);
      c.layout = found->first;
    } else if (name == "values") {
      c.values = parse_values(value);
    } else if (name == "scale") {
      c.scale = parse_number<float>(name, value);
    } else if (name == "seed") {
      c.seed = parse_number<std::uint64_t>(name, value);
    } else {
      fail(
          "--case: there is no field '{}'; the fields are batch, seqlen_q, seqlen_k, heads, heads_kv, head_dim, head_dim_v, dtype, causal, layout, values, "
          "scale, seed",
          name);
    }
  }
  if (!has_seqlen_k) c.seqlen_k = c.seqlen_q;
  if (!has_heads_kv) c.heads_kv = c.heads;
  if (!has_dim_v) c.head_dim_v = c.head_dim;
  return c;
}

double CheckCase::work() const {
  return static_cast<double>(batch * heads) * static_cast<double>(seqlen_q) * static_cast<double>(seqlen_k) * static_cast<double>(head_dim + head_dim_v);
}

AttentionInputs make_inputs(const CheckCase& c) {
  const Placement q_placement = c.layout == Placement::expanded ? Placement::bshd : c.layout;
  AttentionInputs inputs{.q = place({c.batch, c.seqlen_q, c.heads, c.head_dim}, c.dtype, q_placement),
                         .k = place({c.batch, c.seqlen_k, c.heads_kv, c.head_dim}, c.dtype, c.layout),
                         .v = place({c.batch, c.seqlen_k, c.heads_kv, c.head_dim_v}, c.dtype, c.layout),
                         .scale = c.scale.value_or(1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.head_dim, 1)))),
                         .causal = c.causal};
  HostTensor* const tensors[] = {&inputs.q, &inputs.k, &inputs.v};
  for (std::uint64_t i = 0; i < 3; ++i) {
    HostTensor entry = *tensors[i];
    if (c.layout == Placement::expanded && i > 0) entry.shape[0] = std::min<std::int64_t>(entry.shape[0], 1);  // one entry for all
    fill(entry, c.values, c.seed * 3 + i);
    tensors[i]->storage = std::move(entry.storage);
  }
  return inputs;
}

HostTensor make_output(const CheckCase& c) {
  return place({c.batch, c.seqlen_q, c.heads, c.head_dim_v}, c.dtype, c.layout == Placement::expanded ? Placement::bshd : c.layout);
}

bool gaps_untouched(const HostTensor& out) {
  HostTensor rest = out;
  const std::size_t row_bytes = static_cast<std::size_t>(out.shape[3]) * size_of(out.type);
  for (std::int64_t b = 0; b < out.shape[0]; ++b)
    for (std::int64_t s = 0; s < out.shape[1]; ++s)
      for (std::int64_t h = 0; h < out.shape[2]; ++h) std::memset(rest.at(b, s, h, 0), 0xff, row_bytes);
  return std::all_of(rest.storage.begin(), rest.storage.end(), [](std::byte byte) { return byte == std::byte{0xff}; });
}

std::vector<CheckCase> fixed_cases() {
  constexpr const char* kLines[] = {
      "seqlen_q=1,seqlen_k=1",
      "seqlen_q=11,seqlen_k=99,causal=1",
      "seqlen_q=127,seqlen_k=127,causal=1",
      "seqlen_q=128,seqlen_k=129,heads=4,heads_kv=1",
      "seqlen_q=129,seqlen_k=255,heads=6,heads_kv=2,causal=1,head_dim=128",
      "seqlen_q=255,seqlen_k=128,causal=1,head_dim=128",  // the first rows see no key
      "seqlen_q=300,seqlen_k=1,causal=1,head_dim=128",
      "seqlen_q=33,seqlen_k=0",
      "seqlen_q=33,seqlen_k=0,causal=1,head_dim=128",
      "seqlen_q=0,seqlen_k=17",
      "batch=0",
      "batch=3,seqlen_q=64,seqlen_k=200,heads=3,heads_kv=3,layout=bhsd,dtype=fp16",
      "batch=2,seqlen_q=97,seqlen_k=161,heads=2,heads_kv=1,layout=padded,head_dim=128,causal=1",
      "batch=2,seqlen_q=77,seqlen_k=130,heads=2,layout=slice,head_dim=64,dtype=fp16",
      "batch=4,seqlen_q=50,seqlen_k=190,heads=2,heads_kv=1,layout=expanded,head_dim=128",
      "seqlen_q=70,seqlen_k=70,head_dim=8",
      "seqlen_q=70,seqlen_k=170,head_dim=40,causal=1",
      "seqlen_q=140,seqlen_k=140,head_dim=96,dtype=fp16,causal=1",
      "seqlen_q=150,seqlen_k=260,head_dim=192,head_dim_v=128,causal=1",
      "seqlen_q=150,seqlen_k=260,head_dim=256,dtype=fp16",
      "seqlen_q=200,seqlen_k=333,head_dim=256,causal=1",
      "seqlen_q=130,seqlen_k=130,head_dim=128,values=large,causal=1",
      "seqlen_q=130,seqlen_k=300,head_dim=128,values=outliers,dtype=fp16",
      "seqlen_q=65,seqlen_k=333,values=equal",
      "seqlen_q=65,seqlen_k=100,scale=0",
      "seqlen_q=64,seqlen_k=1763,heads=1,head_dim=128,causal=1",
  };
  std::vector<CheckCase> cases;
  for (const char* line : kLines) cases.push_back(CheckCase::parse(line));
  return cases;
}

CheckCase random_case(std::uint64_t seed, std::uint64_t index, const std::vector<DataType>& dtypes, double most_work) {
  std::seed_seq words{seed & 0xffffffffu, seed >> 32, index & 0xffffffffu, index >> 32};
  std::mt19937_64 random(words);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const auto one_of = [&](const auto& list) { return list[static_cast<std::size_t>(below(std::ssize(list)))]; };
  // Half of the lengths lie at tile borders, the others anywhere, short ones as often as long ones.
  const auto length = [&] {
    if (below(2) == 0) return std::array<std::int64_t, 14>{1, 11, 63, 64, 65, 99, 127, 128, 129, 191, 192, 193, 255, 1763}[static_cast<std::size_t>(below(14))];
    return below(std::int64_t{1} << (1 + below(12)));
  };
  CheckCase c;
  c.seed = random();
  c.dtype = one_of(dtypes);
  c.causal = below(2) == 1;
  c.batch = 1 + below(4);
  c.heads_kv = 1 + below(4);
  c.heads = c.heads_kv * one_of(std::array<std::int64_t, 6>{1, 1, 2, 3, 4, 8});
  c.head_dim = below(2) == 0 ? one_of(std::array<std::int64_t, 4>{64, 96, 128, 256}) : 8 * (1 + below(32));
  c.head_dim_v = c.head_dim;
  if (below(8) == 0) {
    c.head_dim = 192;
    c.head_dim_v = 128;
  }
  c.seqlen_q = length();
  c.seqlen_k = below(3) == 0 ? c.seqlen_q : length();
  c.layout = one_of(std::array{Placement::bshd, Placement::bshd, Placement::bhsd, Placement::padded, Placement::slice, Placement::expanded});
  c.values = one_of(std::array{Values::normal, Values::normal, Values::normal, Values::outliers, Values::large, Values::equal});
  while (c.work() > most_work) {
    std::int64_t& longest = c.batch > 1 ? c.batch : c.heads > c.heads_kv ? c.heads : c.seqlen_q > c.seqlen_k ? c.seqlen_q : c.seqlen_k;
    if (&longest == &c.heads)
      c.heads = c.heads_kv;
    else
      longest = longest / 2;
    if (c.work() > most_work && c.batch <= 1 && c.heads_kv > 1) c.heads = c.heads_kv = 1;
  }
  return c;
}

}  // namespace tandem::cli
