#include "backends/cpu/forward_kernel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "backends/cpu/narrow_float.hpp"

// Compile this file once for each instruction set worth its code; whatever is not listed falls back to the next lower one.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/forward_kernel.cpp"
#include "hwy/foreach_target.h"
//
#include "backends/cpu/gemm-inl.hpp"
#include "backends/cpu/pack-inl.hpp"
#include "backends/cpu/softmax-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t in_whole_vectors(std::size_t floats) { return (floats + 15) / 16 * 16; }

// Where things lie in an item's scratch, in floats; every part starts on a multiple of 64 bytes.
struct ScratchLayout {
  std::size_t keys = 0, values, row, scores, panels;  // offsets
  std::size_t queries_size, panel_size;               // a panel: its queries, its outputs
  std::size_t total;

  ScratchLayout(std::int64_t head_dim, std::int64_t head_dim_v, std::int64_t rows) {
    const auto qk = static_cast<std::size_t>(head_dim), v = static_cast<std::size_t>(head_dim_v);
    const std::size_t chunks = (qk + kChunk - 1) / kChunk;
    const std::size_t v_columns = v + kSmallestBlock;
    values = keys + chunks * kChunk * kTileKeys;
    row = values + in_whole_vectors(v_columns * kTileKeys);
    scores = row + in_whole_vectors(std::max(qk, v) + kBlock + kLanes);
    panels = scores + in_whole_vectors(kTileKeys * kPanelRows);
    queries_size = in_whole_vectors(qk * kPanelRows);
    panel_size = queries_size + in_whole_vectors(v_columns * kPanelRows);
    total = panels + static_cast<std::size_t>((rows + kPanelRows - 1) / kPanelRows) * panel_size;
  }
};

// Query rows whose accumulators are in registers together.
struct Panel {
  std::int64_t first_row = 0;  // of the item
  int rows = 0;
  KeyRange some, all;  // keys that at least one row sees lie in `some`; keys in `all` are seen by every row
  float* queries = nullptr;
  float* outputs = nullptr;
  SoftmaxState softmax;
};

class Item {
 public:
  Item(const ForwardTask& task, std::int64_t index, float* scratch)
      : task_(task),
        problem_(task.problem),
        sequence_(task.sequence_of(index)),
        layout_(problem_.head_dim, problem_.head_dim_v, task.rows_per_item),
        scratch_(scratch),
        element_bytes_(size_of(problem_.type)),
        head_dim_(static_cast<int>(problem_.head_dim)),
        head_dim_v_(static_cast<int>(problem_.head_dim_v)),
        read_(reader_of(problem_.type)) {
    // The rows that see most come first, so that the last items to finish are short ones.
    const std::int64_t own = index - sequence_.first_item;
    kv_head_ = own / sequence_.items_per_head;
    first_row_ = (sequence_.items_per_head - 1 - own % sequence_.items_per_head) * task.rows_per_item;
    rows_ = static_cast<int>(std::min(task.rows_per_item, sequence_.seqlen_q * task.group - first_row_));
  }

  void run() {
    start_panels();
    std::int64_t begin = sequence_.seqlen_k, end = 0;
    for (const Panel& panel : panels()) {
      if (panel.some.begin == panel.some.end) continue;
      begin = std::min(begin, panel.some.begin);
      end = std::max(end, panel.some.end);
    }
    // Tiles start at multiples of kTileKeys whoever asks, so that a row's sums are cut at the same places in every item.
    for (std::int64_t key = begin / kTileKeys * kTileKeys; key < end; key += kTileKeys) {
      const Magnitude magnitude = load_tile(key);
      for (Panel& panel : panels()) {
        if (panel.rows <= kLanes) {
          step<1>(panel, key, magnitude);
        } else {
          step<2>(panel, key, magnitude);
        }
      }
    }
    for (Panel& panel : panels()) finish(panel);
  }

 private:
  // Stack space for the panels of an item; scratch holds their matrices.
  static constexpr std::size_t kMaxPanels = (kMaxRowsPerItem + kPanelRows - 1) / kPanelRows;

  std::span<Panel> panels() { return {panels_.data(), static_cast<std::size_t>((rows_ + kPanelRows - 1) / kPanelRows)}; }

  static int vectors_of(const Panel& panel) { return panel.rows <= kLanes ? 1 : 2; }

  std::int64_t query_of(std::int64_t row) const { return (first_row_ + row) / task_.group; }
  std::int64_t head_of(std::int64_t row) const { return kv_head_ * task_.group + (first_row_ + row) % task_.group; }
  KeyRange keys_of(std::int64_t row) const { return visible_keys(task_.mask, query_of(row), sequence_.seqlen_q, sequence_.seqlen_k); }

  std::byte* address(const Tensor& tensor, std::int64_t batch, std::int64_t position, std::int64_t head) const {
    return static_cast<std::byte*>(tensor.data) + (batch * tensor.stride[0] + position * tensor.stride[1] + head * tensor.stride[2]) * element_bytes_;
  }
  std::byte* address_of_query(const Tensor& tensor, std::int64_t query, std::int64_t head) const {
    return address(tensor, sequence_.q_batch, sequence_.q_begin + query, head);
  }
  std::byte* address_of_key(const Tensor& tensor, std::int64_t key) const { return address(tensor, sequence_.k_batch, sequence_.k_begin + key, kv_head_); }

  void start_panels() {
    float* memory = scratch_ + layout_.panels;
    std::int64_t first_row = 0;
    for (Panel& panel : panels()) {
      panel.first_row = first_row;
      panel.rows = static_cast<int>(std::min<std::int64_t>(kPanelRows, rows_ - first_row));
      panel.queries = memory;
      panel.outputs = memory + layout_.queries_size;
      panel.softmax.weight_scale = 1.0f;
      std::fill_n(panel.softmax.row_max, kPanelRows, -std::numeric_limits<float>::infinity());
      std::fill_n(panel.softmax.row_sum, kPanelRows, 0.0f);

      // Both ends grow with the row, so the first and the last row bound the rest.
      const KeyRange first = keys_of(first_row), last = keys_of(first_row + panel.rows - 1);
      panel.some = {first.begin, last.end};
      panel.all = {last.begin, first.end};

      if (panel.some.begin < panel.some.end) load_queries(panel);
      std::fill_n(panel.outputs, pad_to_block(head_dim_v_) * vectors_of(panel) * kLanes, 0.0f);
      memory += layout_.panel_size;
      first_row += kPanelRows;
    }
  }

  // Q^T in fp32: [head_dim][lanes]. Lanes without a row hold zeros.
  void load_queries(Panel& panel) {
    const int lanes = vectors_of(panel) * kLanes;
    float* const row = scratch_ + layout_.row;
    if (panel.rows < lanes) std::fill_n(panel.queries, head_dim_ * lanes, 0.0f);
    for (int r = 0; r < panel.rows; ++r) {
      const std::int64_t at = panel.first_row + r;
      read_(address_of_query(task_.call.q, query_of(at), head_of(at)), task_.call.q.stride[3], head_dim_, row);
      for (int column = 0; column < head_dim_; ++column) panel.queries[column * lanes + r] = row[column] * task_.query_scale;
    }
  }

  Magnitude load_tile(std::int64_t key) {
    const Tensor &k = task_.call.k, &v = task_.call.v;
    const int keys = keys_in_tile(key);
    pack_keys(read_, address_of_key(k, key), k.stride[1] * element_bytes_, element_bytes_, k.stride[3], keys, head_dim_, scratch_ + layout_.keys);
    return pack_values(read_, address_of_key(v, key), v.stride[1] * element_bytes_, v.stride[3], keys, head_dim_v_, scratch_ + layout_.row,
                       scratch_ + layout_.values);
  }

  int keys_in_tile(std::int64_t key) const { return static_cast<int>(std::min<std::int64_t>(kTileKeys, sequence_.seqlen_k - key)); }

  template <int kVectors>
  void step(Panel& panel, std::int64_t key, Magnitude magnitude) {
    const std::int64_t tile_end = key + keys_in_tile(key);
    if (panel.some.end <= key || panel.some.begin >= tile_end) return;
    const bool masked = panel.all.begin > key || panel.all.end < tile_end;
    // Keys past the last visible one cost nothing.
    const int keys = static_cast<int>(std::min(tile_end, panel.some.end) - key);

    float* const s = scratch_ + layout_.scores;
    const float* const values = scratch_ + layout_.values;
    const int columns = pad_to_block(head_dim_v_);
    const float weight_scale = magnitude.large() ? kReducedWeightScale : panel.softmax.weight_scale;
    Vector rescale[kVectors];
    VisibleInTile visible;

    scores<kVectors>(scratch_ + layout_.keys, panel.queries, head_dim_, keys, task_.score_scale, s);
    if (problem_.softcap) cap_scores<kVectors>(s, keys, task_.call.softcap);
    if (masked) {
      fill(visible, panel, key);
      softmax_step<kVectors, true>(s, keys, visible, panel.softmax, weight_scale, rescale);
    } else {
      softmax_step<kVectors, false>(s, keys, visible, panel.softmax, weight_scale, rescale);
    }
    if (masked && !magnitude.finite()) {
      accumulate_visible_values<kVectors>(values, s, keys, columns, visible, rescale, panel.outputs);
    } else {
      accumulate_values<kVectors>(values, s, keys, columns, rescale, panel.outputs);
    }
  }

  void fill(VisibleInTile& visible, const Panel& panel, std::int64_t key) const {
    for (int r = 0; r < kPanelRows; ++r) {
      const KeyRange range = r < panel.rows ? keys_of(panel.first_row + r) : KeyRange{};
      visible.begin[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(range.begin - key, 0, kTileKeys));
      visible.end[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(range.end - key, 0, kTileKeys));
    }
  }

  // As accumulate_values, for a tile in which some row does not see some value that is infinite or NaN: 0 times it would be NaN, so it is
  // left out by selection.
  template <int kVectors>
  void accumulate_visible_values(const float* v, const float* p, int keys, int columns, const VisibleInTile& visible, const Vector (&rescale)[kVectors],
                                 float* o) const {
    const Floats d;
    for (int first = 0; first < columns; first += kBlock) {
      const int width = std::min(kBlock, columns - first);
      for (int column = 0; column < width; ++column) {
        for (int c = 0; c < kVectors; ++c) {
          Vector sum = hn::Zero(d);
          for (int key = 0; key < keys; ++key) {
            const Vector value = hn::Set(d, v[first * kTileKeys + key * width + column]);
            const Vector weight = hn::Load(d, p + (key * kVectors + c) * kLanes);
            sum = hn::IfThenElse(sees(visible, c, key), hn::MulAdd(value, weight, sum), sum);
          }
          float* const out = o + ((first + column) * kVectors + c) * kLanes;
          hn::Store(hn::MulAdd(hn::Load(d, out), rescale[c], sum), d, out);
        }
      }
    }
  }

  void finish(const Panel& panel) const {
    const WriteRow write = writer_of(problem_.type);
    const Tensor& out = task_.call.out;
    for (int r = 0; r < panel.rows; ++r) {
      const std::int64_t at = panel.first_row + r;
      const std::int64_t query = query_of(at), head = head_of(at);
      const float sum = panel.softmax.row_sum[r];
      // The sum is 0 only if no key was visible: the largest weight is weight_scale. Its outputs are 0 already; NaN is not equal to 0.
      const bool empty = sum == 0.0f;
      float factor = empty ? 0.0f : 1.0f / sum;
      double top = panel.softmax.row_max[r], all = static_cast<double>(sum) / panel.softmax.weight_scale;
      double nothing = -std::numeric_limits<double>::infinity();  // LSE of a row that sees no key
      if (problem_.sinks && !sequence_.outside) {
        nothing = task_.call.sinks[head];
        const double maximum = std::max(top, nothing), correction = std::exp(top - maximum);
        all = all * correction + std::exp(nothing - maximum);
        if (!empty) factor = static_cast<float>(correction / (all * panel.softmax.weight_scale));
        top = maximum;
      }
      write(panel.outputs + r, vectors_of(panel) * kLanes, factor, head_dim_v_, address_of_query(out, query, head), out.stride[3]);
      if (task_.call.lse == nullptr) continue;
      float* const lse = task_.call.lse + sequence_.q_batch * task_.call.lse_stride_batch + head * task_.call.lse_stride_head;
      lse[sequence_.q_begin + query] = static_cast<float>(empty ? nothing : top + std::log(all));
    }
  }

  const ForwardTask& task_;
  const ForwardProblem& problem_;
  const Sequence sequence_;
  const ScratchLayout layout_;
  float* const scratch_;
  const std::int64_t element_bytes_;
  const int head_dim_, head_dim_v_;
  const ReadRow read_;
  std::int64_t kv_head_ = 0, first_row_ = 0;
  int rows_ = 0;
  std::array<Panel, kMaxPanels> panels_;
};

inline std::size_t scratch_floats(const ForwardProblem& problem, std::int64_t rows_per_item) {
  return ScratchLayout(problem.head_dim, problem.head_dim_v, rows_per_item).total;
}

inline void run_item(const ForwardTask& task, std::int64_t item, float* scratch) { Item(task, item, scratch).run(); }

ForwardKernel forward_kernel() { return {hwy::TargetName(HWY_TARGET), kLanes, kPanelRows, kTileKeys, scratch_floats, run_item}; }

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(forward_kernel);

ForwardKernel best_forward_kernel() { return HWY_DYNAMIC_DISPATCH(forward_kernel)(); }

}  // namespace tandem::cpu
#endif
