#include "check_case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
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

std::int64_t total_of(const Lengths& lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return sum;
}

std::int64_t longest_of(const Lengths& lengths) { return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()); }

// Rows that no sequence has hold NaN: nothing may read them. Where batch entries share their memory, a row is kept if one of them has it.
void spoil_unused(HostTensor& tensor, std::int64_t sequences, const std::function<Rows(std::int64_t)>& rows_of) {
  const auto rows = static_cast<std::size_t>(tensor.shape[1]);
  const bool shared = tensor.stride[0] == 0 && tensor.shape[0] > 1;
  std::vector<std::vector<bool>> used(shared ? 1 : static_cast<std::size_t>(tensor.shape[0]), std::vector<bool>(rows, false));
  for (std::int64_t i = 0; i < sequences; ++i) {
    const Rows own = rows_of(i);
    std::vector<bool>& entry = used[shared ? 0 : static_cast<std::size_t>(own.batch)];
    std::fill_n(entry.begin() + own.first, own.count, true);
  }
  const std::size_t row_bytes = static_cast<std::size_t>(tensor.shape[3]) * size_of(tensor.type);
  for (std::size_t b = 0; b < used.size(); ++b)
    for (std::size_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < tensor.shape[2] && !used[b][row]; ++head)
        std::memset(tensor.at(static_cast<std::int64_t>(b), static_cast<std::int64_t>(row), head, 0), 0xff, row_bytes);
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
                  seqlen_k, heads, heads_kv, head_dim, head_dim_v, tandem::name_of(dtype), mask.causal ? 1 : 0, name_of(layout), cli::name_of(values));
  if (mask.windowed()) text += fmt::format(",window={}:{}", mask.window_left, mask.window_right);
  if (mask.attention_chunk > 0) text += fmt::format(",attention_chunk={}", mask.attention_chunk);
  if (softcap > 0) text += fmt::format(",softcap={}", softcap);
  if (sinks) text += ",sinks=1";
  for (const auto& [name, lengths] :
       {std::pair("seqlens_q", &seqlens_q), std::pair("seqlens_k", &seqlens_k), std::pair("seqused_q", &seqused_q), std::pair("seqused_k", &seqused_k)})
    if (*lengths) text += fmt::format(",{}={}", name, fmt::join(**lengths, ":"));
  if (sm_margin > 0) text += fmt::format(",sm_margin={}", sm_margin);
  if (batch_invariant) text += ",batch_invariant=1";
  if (scale) text += fmt::format(",scale={}", *scale);
  return text + fmt::format(",seed={}", seed);
}

CheckCase CheckCase::parse(const std::string& text) {
  CheckCase c;
  bool has_dim_v = false, has_heads_kv = false, has_seqlen_q = false, has_seqlen_k = false, has_batch = false;
  const auto flag = [](const std::string& name, const std::string& value) {
    if (value != "0" && value != "1") fail("--case: {} is '{}'; it must be 0 or 1", name, value);
    return value == "1";
  };
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
      has_seqlen_q = has_seqlen_q || name == "seqlen_q";
      has_seqlen_k = has_seqlen_k || name == "seqlen_k";
      has_batch = has_batch || name == "batch";
    } else if (name == "dtype") {
      c.dtype = parse_data_type(value);
    } else if (name == "causal") {
      c.mask.causal = flag(name, value);
    } else if (name == "sinks") {
      c.sinks = flag(name, value);
    } else if (name == "batch_invariant") {
      c.batch_invariant = flag(name, value);
    } else if (name == "window") {
      const Mask window = parse_window("--case: window", value, ':');
      c.mask.window_left = window.window_left;
      c.mask.window_right = window.window_right;
    } else if (name == "attention_chunk") {
      c.mask.attention_chunk = parse_number<std::int64_t>(name, value);
      if (c.mask.attention_chunk < 0) fail("--case: attention_chunk is {}; it must be 0 or more", value);
    } else if (name == "softcap") {
      c.softcap = parse_number<float>(name, value);
      if (!std::isfinite(c.softcap) || c.softcap < 0) fail("--case: softcap is {}; it must be finite and 0 or more", value);
    } else if (name == "sm_margin") {
      c.sm_margin = parse_number<int>(name, value);
    } else if (name == "seqlens_q") {
      c.seqlens_q = parse_lengths("--case: " + name, value, ':');
    } else if (name == "seqlens_k") {
      c.seqlens_k = parse_lengths("--case: " + name, value, ':');
    } else if (name == "seqused_q") {
      c.seqused_q = parse_lengths("--case: " + name, value, ':');
    } else if (name == "seqused_k") {
      c.seqused_k = parse_lengths("--case: " + name, value, ':');
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
          "scale, seed, window, attention_chunk, softcap, sinks, seqlens_q, seqlens_k, seqused_q, seqused_k, sm_margin, batch_invariant",
          name);
    }
  }
  if (!has_seqlen_q && c.seqlens_q) c.seqlen_q = total_of(*c.seqlens_q);
  if (!has_seqlen_k) c.seqlen_k = c.seqlens_k ? total_of(*c.seqlens_k) : c.seqlens_q ? longest_of(*c.seqlens_q) : c.seqlen_q;
  c.settle_batch(has_batch);
  if (!has_heads_kv) c.heads_kv = c.heads;
  if (!has_dim_v) c.head_dim_v = c.head_dim;
  return c;
}

void CheckCase::settle_batch(bool given) {
  for (const auto& [name, lengths] :
       {std::pair("seqlens_q", &seqlens_q), std::pair("seqlens_k", &seqlens_k), std::pair("seqused_q", &seqused_q), std::pair("seqused_k", &seqused_k)}) {
    if (!*lengths) continue;
    if (given && std::ssize(**lengths) != batch)
      fail("{} has {} lengths and there are {} sequences; there must be one for each", name, (*lengths)->size(), batch);
    batch = std::ssize(**lengths);
    given = true;
  }
}

void CheckCase::apply(const CallOptions& options) {
  mask.causal = mask.causal || options.causal;
  if (options.window) {
    mask.window_left = options.window->window_left;
    mask.window_right = options.window->window_right;
  }
  if (options.attention_chunk > 0) mask.attention_chunk = options.attention_chunk;
  if (options.softcap > 0) softcap = options.softcap;
  sinks = sinks || options.sinks.has_value();
  if (options.sm_margin > 0) sm_margin = options.sm_margin;
  batch_invariant = batch_invariant || options.batch_invariant;
  if (!options.seqlens_q && !options.seqlens_k && !options.seqused_q && !options.seqused_k) return;
  // Lengths of another batch than that of the case replace all that the case says of them.
  seqlens_q = options.seqlens_q;
  seqlens_k = options.seqlens_k;
  seqused_q = options.seqused_q;
  seqused_k = options.seqused_k;
  if (seqlens_q) seqlen_q = total_of(*seqlens_q);
  if (seqlens_k) seqlen_k = total_of(*seqlens_k);
  // What is not packed has to hold what is used of it.
  if (!seqlens_q && seqused_q) seqlen_q = std::max(seqlen_q, longest_of(*seqused_q));
  if (!seqlens_k && seqused_k) seqlen_k = std::max(seqlen_k, longest_of(*seqused_k));
  settle_batch(false);
}

double CheckCase::work() const {
  const auto width = static_cast<double>(heads * (head_dim + head_dim_v));
  const double keys = static_cast<double>(seqlens_k ? longest_of(*seqlens_k) : seqlen_k);
  return width * keys * static_cast<double>(seqlens_q ? seqlen_q : batch * seqlen_q);
}

AttentionInputs make_inputs(const CheckCase& c) {
  const Placement q_placement = c.layout == Placement::expanded ? Placement::bshd : c.layout;
  const std::int64_t batch_q = c.seqlens_q ? 1 : c.batch, batch_k = c.seqlens_k ? 1 : c.batch;
  AttentionInputs inputs{.q = place({batch_q, c.seqlen_q, c.heads, c.head_dim}, c.dtype, q_placement),
                         .k = place({batch_k, c.seqlen_k, c.heads_kv, c.head_dim}, c.dtype, c.layout),
                         .v = place({batch_k, c.seqlen_k, c.heads_kv, c.head_dim_v}, c.dtype, c.layout),
                         .scale = c.scale.value_or(1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.head_dim, 1)))),
                         .mask = c.mask,
                         .softcap = c.softcap,
                         .seqused_q = c.seqused_q,
                         .seqused_k = c.seqused_k,
                         .sm_margin = c.sm_margin,
                         .batch_invariant = c.batch_invariant};
  if (c.seqlens_q) inputs.cu_seqlens_q = cumulated("seqlens_q", *c.seqlens_q);
  if (c.seqlens_k) inputs.cu_seqlens_k = cumulated("seqlens_k", *c.seqlens_k);
  if (c.sinks) {
    // About as large as the largest scores.
    std::mt19937_64 random(c.seed);
    for (std::int64_t head = 0; head < c.heads; ++head) inputs.sinks.push_back(static_cast<float>(random() % 801) / 100.0f - 4.0f);
  }
  HostTensor* const tensors[] = {&inputs.q, &inputs.k, &inputs.v};
  for (std::uint64_t i = 0; i < 3; ++i) {
    HostTensor entry = *tensors[i];
    if (c.layout == Placement::expanded && i > 0) entry.shape[0] = std::min<std::int64_t>(entry.shape[0], 1);  // one entry for all
    fill(entry, c.values, c.seed * 3 + i);
    tensors[i]->storage = std::move(entry.storage);
  }
  if (inputs.ragged()) {
    spoil_unused(inputs.q, c.batch, [&](std::int64_t i) { return inputs.queries(i); });
    for (HostTensor* tensor : {&inputs.k, &inputs.v}) spoil_unused(*tensor, c.batch, [&](std::int64_t i) { return inputs.keys(i); });
  }
  return inputs;
}

HostTensor make_output(const CheckCase& c) {
  return place({c.seqlens_q ? 1 : c.batch, c.seqlen_q, c.heads, c.head_dim_v}, c.dtype, c.layout == Placement::expanded ? Placement::bshd : c.layout);
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
      // Windows: inside a block, over several, beside the keys, wider than all.
      "seqlen_q=200,seqlen_k=333,window=64:32",
      "seqlen_q=300,seqlen_k=300,head_dim=128,causal=1,window=100:-1",
      "seqlen_q=129,seqlen_k=700,head_dim=128,window=0:0",
      "seqlen_q=255,seqlen_k=100,window=5:7",  // most rows see no key
      "seqlen_q=99,seqlen_k=260,window=-1:3,dtype=fp16",
      "seqlen_q=301,seqlen_k=70,window=-1:5",  // positions before the first key, and a side without an end
      "seqlen_q=301,seqlen_k=70,window=5:-1",
      "seqlen_q=99,seqlen_k=260,window=130:-1,head_dim=256",
      "seqlen_q=70,seqlen_k=70,window=1000000000000:1000000000000,causal=1",
      "seqlen_q=300,seqlen_k=300,attention_chunk=128,causal=1",
      "seqlen_q=255,seqlen_k=391,attention_chunk=37,head_dim=128",
      "seqlen_q=255,seqlen_k=391,attention_chunk=100,window=64:10,head_dim=128,dtype=fp16",
      "seqlen_q=130,seqlen_k=260,softcap=5,head_dim=128,causal=1",
      "seqlen_q=130,seqlen_k=260,softcap=30,values=large,dtype=fp16",
      "seqlen_q=130,seqlen_k=260,sinks=1,heads=6,heads_kv=2,causal=1",
      "seqlen_q=200,seqlen_k=64,sinks=1,causal=1,head_dim=128",  // rows that see nothing but their sink
      "seqlen_q=33,seqlen_k=0,sinks=1",
      "seqlen_q=150,seqlen_k=150,sinks=1,softcap=20,window=40:0,head_dim=128",
      // Ragged: empty sequences, tile borders, rows beside the sequences, one side packed, lengths that the tensors do not have.
      "seqlens_q=1:0:129:64,seqlens_k=5:77:129:0,causal=1",
      "seqlens_q=100:200:3,seqlens_k=100:200:3,head_dim=128,heads=6,heads_kv=2,causal=1",
      "seqlens_q=65:1:130,seqlens_k=300:64:11,dtype=fp16,layout=padded",
      "seqlens_q=50:60,seqlens_k=70:80,seqlen_q=140,seqlen_k=200,head_dim=128",
      "seqlens_q=50:60,seqlens_k=70:80,seqlen_q=100,seqlen_k=120,head_dim=128",
      "seqlens_q=50:60:7,seqlen_k=200,causal=1",
      "seqlen_q=40,seqlens_k=50:260:7,causal=1,head_dim=128",
      "seqlens_q=0:0,seqlens_k=3:4",
      "seqlens_q=,seqlens_k=,seqlen_q=20",  // no sequence at all: every row is 0
      "batch=3,seqlen_q=100,seqlen_k=200,seqused_q=100:0:33,seqused_k=1:200:129,causal=1",
      "batch=2,seqlen_q=140,seqlen_k=200,seqused_k=70:500,head_dim=128,layout=slice",
      "batch=2,seqlen_q=80,seqlen_k=200,seqused_k=70:128,layout=expanded",
      "seqlens_q=90:130,seqlens_k=150:130,seqused_q=90:64,seqused_k=64:129,window=50:20,sinks=1,softcap=15,head_dim=128",
      "seqlens_q=200:31,seqlens_k=200:131,attention_chunk=64,causal=1,head_dim=64,layout=bhsd",
      "seqlens_q=300:1:77,seqlens_k=300:500:77,causal=1,head_dim=128,batch_invariant=1,sm_margin=16",
  };
  std::vector<CheckCase> cases;
  for (const char* line : kLines) cases.push_back(CheckCase::parse(line));
  return cases;
}

namespace {

template <class Below, class Length>
void add_features(CheckCase& c, const Below& below, const Length& length) {
  const auto one_in = [&](std::int64_t n) { return below(n) == 0; };
  if (one_in(3)) {
    const auto side = [&] { return one_in(4) ? -1 : one_in(4) ? 0 : length() / 2; };
    c.mask.window_left = side();
    c.mask.window_right = side();
  }
  if (one_in(8)) c.mask.attention_chunk = 1 + length() / 2;
  if (one_in(5)) c.softcap = static_cast<float>(1 + below(50));
  c.sinks = one_in(5);
  if (one_in(8)) c.batch_invariant = true;
  if (one_in(8)) c.sm_margin = static_cast<int>(below(140));
  if (!one_in(3)) return;
  const auto used = [&](std::int64_t most) {
    Lengths lengths;
    for (std::int64_t i = 0; i < c.batch; ++i) lengths.push_back(static_cast<std::int32_t>(one_in(8) ? 0 : one_in(3) ? most : below(most + 1)));
    return lengths;
  };
  if (!one_in(3)) c.seqlens_q = used(c.seqlen_q);
  if (!one_in(3)) c.seqlens_k = used(c.seqlen_k);
  if (one_in(3)) c.seqused_q = used(c.seqlen_q);
  if (one_in(3)) c.seqused_k = used(c.seqlen_k);
  // Rows after the last sequence.
  if (c.seqlens_q) c.seqlen_q = total_of(*c.seqlens_q) + (one_in(2) ? 0 : below(150));
  if (c.seqlens_k) c.seqlen_k = total_of(*c.seqlens_k) + (one_in(2) ? 0 : below(150));
}

// Makes a case smaller; of ragged ones, everything along that axis.
void halve(CheckCase& c, std::int64_t& axis) {
  axis /= 2;
  const auto halve_all = [](std::optional<Lengths>& lengths) {
    if (lengths)
      for (std::int32_t& length : *lengths) length /= 2;
  };
  if (&axis == &c.batch)
    for (std::optional<Lengths>* lengths : {&c.seqlens_q, &c.seqlens_k, &c.seqused_q, &c.seqused_k})
      if (*lengths) (*lengths)->resize(static_cast<std::size_t>(c.batch));
  if (&axis == &c.seqlen_q || &axis == &c.batch) {
    if (&axis == &c.seqlen_q) halve_all(c.seqlens_q), halve_all(c.seqused_q);
    if (c.seqlens_q) c.seqlen_q = std::max(total_of(*c.seqlens_q), &axis == &c.seqlen_q ? axis : 0);
  }
  if (&axis == &c.seqlen_k || &axis == &c.batch) {
    if (&axis == &c.seqlen_k) halve_all(c.seqlens_k), halve_all(c.seqused_k);
    if (c.seqlens_k) c.seqlen_k = std::max(total_of(*c.seqlens_k), &axis == &c.seqlen_k ? axis : 0);
  }
}

}  // namespace

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
  c.mask.causal = below(2) == 1;
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
  add_features(c, below, length);
  while (c.work() > most_work) {
    std::int64_t& longest = c.batch > 1 ? c.batch : c.heads > c.heads_kv ? c.heads : c.seqlen_q > c.seqlen_k ? c.seqlen_q : c.seqlen_k;
    if (&longest == &c.heads)
      c.heads = c.heads_kv;
    else
      halve(c, longest);
    if (c.work() > most_work && c.batch <= 1 && c.heads_kv > 1) c.heads = c.heads_kv = 1;
  }
  return c;
}

}  // namespace tandem::cli
